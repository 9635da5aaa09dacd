#include "cuda_runtime/layer_reference.hpp"

#include <catch2/catch.hpp>

#include "cuda_runtime/reference/synthetic_layer.hpp"

namespace moeplan::tests::layer_reference_test {

using namespace moeplan::runtime;

namespace {

/// Two sources of 12 tokens, four experts of 3 x 16 x 20 weights: 30,720 bytes in double. Shared experts: 15,360.
SyntheticLayer layer() {
  SyntheticLayer out{.shape = {.hidden_size = 16, .ffn_size = 20, .experts = 4, .top_k = 2, .gated = true},
                     .dtype = Dtype::Bf16,
                     .shared = MoeShape{16, 40, 1, 1, true},
                     .seed = 5,
                     .asked = RoutingCounts::by_expert(2, {12, 6, 4, 2})};
  for (std::int32_t s = 0; s < 2; ++s) out.kept.push_back(planned_choices(out.asked, RankId(s), 2, out.seed));
  return out;
}

/// Gradients of all weights are sums over both sources.
GradientShares shares() {
  GradientShares out;
  for (std::int64_t s = 0; s < 2; ++s) {
    out.gate[s] = 1;
    for (std::int64_t e = 0; e < 4; ++e) out.experts[e][s] = 1;
  }
  return out;
}

constexpr double kVast = 1e12;

}  // namespace

TEST_CASE("A reference of some tokens has their outputs and gradients, and is given no others") {
  const SyntheticLayer of = layer();
  LayerReference all(of, {}, kVast), some(of, {}, kVast / 1e7);
  REQUIRE(all.is_whole());
  REQUIRE_FALSE(some.is_whole());
  for (LayerReference* reference : {&all, &some}) {
    for (std::int64_t s = 0; s < 2; ++s) reference->add(s, true, {});
  }
  const std::int64_t step = reference_step(of.shape, 24, kVast / 1e7);
  REQUIRE(step > 1);
  REQUIRE(step < 12);
  for (const bool backward : {false, true}) {
    for (std::int64_t s = 0; s < 2; ++s) {
      for (std::int64_t t = 0; t < 12; ++t) {
        const RowKey token{.source = s, .ordinal = t};
        const auto expected = all.row(token, backward), got = some.row(token, backward);
        REQUIRE(expected.size() == 16);
        CHECK((t % step == 0 ? std::equal(got.begin(), got.end(), expected.begin(), expected.end()) : got.empty()));
      }
    }
  }
}

TEST_CASE("Weights that take too much memory are generated when they are read, and of gradients some rows are stored") {
  const SyntheticLayer of = layer();
  LayerReference all(of, {}, kVast), lean(of, {}, kVast, /*most_bytes=*/8000);
  for (LayerReference* reference : {&all, &lean}) {
    for (std::int64_t s = 0; s < 2; ++s) reference->add(s, true, shares());
  }
  for (std::int64_t t = 0; t < 12; ++t) {
    const RowKey token{.source = 1, .ordinal = t};
    for (const bool backward : {false, true}) {
      const auto expected = all.row(token, backward), got = lean.row(token, backward);
      CHECK(std::equal(got.begin(), got.end(), expected.begin(), expected.end()));
    }
  }
  LayerWeights::Scratch scratch;
  const auto compare = [&](const StoredWeights& every, const StoredWeights& stored, std::int64_t experts,
                           std::int64_t step, std::int64_t ffn) {
    double bytes = 0;
    const auto row = [&](std::span<const double> got, std::span<const double> expected, std::int64_t r) {
      CHECK((r % step == 0 ? std::equal(got.begin(), got.end(), expected.begin(), expected.end()) : got.empty()));
      bytes += static_cast<double>(got.size_bytes());
    };
    for (std::int64_t e = 0; e < experts; ++e) {
      for (std::int64_t r = 0; r < 16; ++r) row(stored.up(e, r, scratch), every.up(e, r, scratch), r);
      for (std::int64_t r = 0; r < ffn; ++r) row(stored.down(e, r, scratch), every.down(e, r, scratch), r);
    }
    CHECK(stored.gate() == every.gate());
    CHECK(bytes > 0);
    CHECK(bytes <= 8000 * 1.3);  // the first row of each matrix counts as a whole step
  };
  compare(all.weight_gradients(), lean.weight_gradients(), 4, 4, 20);  // 30,720 / 8,000, rounded up
  compare(all.shared_gradients(), lean.shared_gradients(), 1, 2, 40);
}

}  // namespace moeplan::tests::layer_reference_test
