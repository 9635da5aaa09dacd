#include "cuda_runtime/reference/synthetic_layer.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "cuda_runtime/reference/number_formats.hpp"
#include "cuda_runtime/reference/row_norm.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::synthetic_layer_test {

using namespace moeplan::runtime;
using moeplan::tests::error_of;

namespace {

constexpr MoeShape kShape{.hidden_size = 24, .ffn_size = 8, .experts = 8, .top_k = 2, .gated = true};

/// How often the gate chooses each expert.
std::vector<std::int64_t> chosen_counts(const MoeShape& shape, const Matrix& tokens, std::uint64_t seed, Dtype dtype) {
  const MoeForward forward = moe_forward(shape, GeneratedWeights(shape, dtype, seed), tokens, std::nullopt);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(shape.experts), 0);
  for (const auto& choices : forward.choices) {
    for (const Choice& c : choices) ++counts[static_cast<std::size_t>(c.expert)];
  }
  return counts;
}

}  // namespace

TEST_CASE("the gate chooses exactly as often as planned, of tokens and of normed tokens") {
  const auto norm = GENERATE(std::optional<Norm>(), std::optional(Norm::Rms), std::optional(Norm::Layer));
  const auto check = [&](const RoutingScenario& scenario, std::int64_t top_k, Dtype dtype) {
    MoeShape shape = kShape;
    shape.top_k = top_k;
    const RoutingCounts counts = make_routing(scenario, 3, shape.experts, 40, top_k, 2);
    for (std::int32_t source = 0; source < 3; ++source) {
      const Matrix tokens = made_tokens(shape, counts, RankId(source), dtype, 5);
      const Matrix in = norm ? norm_forward(tokens, made_norm(shape, *norm, dtype, 5)) : tokens;
      const auto got = chosen_counts(shape, in, 5, dtype);
      for (std::int64_t e = 0; e < shape.experts; ++e) {
        REQUIRE(got[static_cast<std::size_t>(e)] == counts.at(RankId(source), ExpertId(static_cast<std::size_t>(e))));
      }
    }
  };
  for (const RoutingShape shape : {RoutingShape::Uniform, RoutingShape::Zipf, RoutingShape::HotExpert,
                                   RoutingShape::ZeroLoad, RoutingShape::Lognormal}) {
    for (const std::int64_t top_k : {1, 2, 4}) {
      for (const Dtype dtype : {Dtype::Bf16, Dtype::Fp16, Dtype::Fp32}) {
        INFO(name_of<RoutingShape>(kRoutingShapeNames, shape) << " top " << top_k);
        check({.shape = shape, .sampled = shape != RoutingShape::Uniform}, top_k, dtype);
      }
    }
  }
}

TEST_CASE("planned choices of random counts") {
  rc::prop("every token has top_k different experts, every expert its count", [] {
    const auto experts = *rc::gen::inRange<std::int64_t>(2, 12);
    const auto top_k = *rc::gen::inRange<std::int64_t>(1, experts + 1);
    const auto tokens = *rc::gen::inRange<std::int64_t>(0, 30);
    const RoutingCounts counts =
        make_routing({.shape = RoutingShape::Zipf, .sampled = true, .seed = 3}, 2, experts, tokens, top_k, 1);
    const auto choices = planned_choices(counts, RankId(1), top_k, *rc::gen::arbitrary<std::uint64_t>());
    RC_ASSERT(std::ssize(choices) == tokens);
    std::vector<std::int64_t> got(static_cast<std::size_t>(experts), 0);
    for (auto token : choices) {
      RC_ASSERT(std::ssize(token) == top_k);
      std::sort(token.begin(), token.end());
      RC_ASSERT(std::adjacent_find(token.begin(), token.end()) == token.end());
      for (const auto e : token) ++got[static_cast<std::size_t>(e)];
    }
    for (std::int64_t e = 0; e < experts; ++e) {
      RC_ASSERT(got[static_cast<std::size_t>(e)] == counts.at(RankId(1), ExpertId(static_cast<std::size_t>(e))));
    }
  });
}

TEST_CASE("what is made depends on the seed, the source and the expert alone") {
  const RoutingCounts counts = RoutingCounts::uniform(2, 8, 4);
  const Matrix tokens = made_tokens(kShape, counts, RankId(0), Dtype::Bf16, 1);
  CHECK(tokens == made_tokens(kShape, counts, RankId(0), Dtype::Bf16, 1));
  CHECK_FALSE(tokens == made_tokens(kShape, counts, RankId(1), Dtype::Bf16, 1));
  CHECK_FALSE(tokens == made_tokens(kShape, counts, RankId(0), Dtype::Bf16, 2));
  CHECK(made_weights(kShape, Dtype::Fp16, 1).up[3] == made_up(kShape, 3, Dtype::Fp16, 1));
  CHECK(made_weights(kShape, Dtype::Fp16, 1).down[3] == made_down(kShape, 3, Dtype::Fp16, 1));
  SECTION("so that rows of weights can be generated one at a time, when they are read") {
    const MoeWeights stored = made_weights(kShape, Dtype::Bf16, 1);
    const GeneratedWeights generated(kShape, Dtype::Bf16, 1);
    CHECK(generated.gate() == stored.gate);
    LayerWeights::Scratch row;
    for (const std::int64_t r : {0, 7}) {
      const auto of = [&](const Matrix& m) { return std::vector<double>(m.row(r).begin(), m.row(r).end()); };
      (void)generated.up(5, r, row);
      CHECK(row == of(stored.up[5]));
      (void)generated.down(5, r, row);
      CHECK(row == of(stored.down[5]));
    }
  }
  SECTION("with mean 0 and variance 1 / rows, as far as as many values tell") {
    const MoeShape large{.hidden_size = 256, .ffn_size = 512, .experts = 8, .top_k = 2, .gated = false};
    double sum = 0, squares = 0;
    const Matrix up = made_up(large, 0, Dtype::Fp32, 1);
    for (const double v : up.values) {
      sum += v;
      squares += v * v;
    }
    const auto count = static_cast<double>(up.values.size());
    CHECK(std::abs(sum / count) < 5 / std::sqrt(256 * count));
    CHECK(squares / count * 256 == Approx(1).epsilon(0.02));
  }
  SECTION("and is exact in the format of the buffers") {
    for (const double v : tokens.values) REQUIRE(rounded_to(Dtype::Bf16, v) == v);
  }
}

TEST_CASE("counts that no tokens can have are refused") {
  const auto error = [](MoeShape shape, RoutingCounts counts) {
    return error_of([&] { static_cast<void>(made_tokens(shape, counts, RankId(0), Dtype::Fp32, 1)); });
  };
  MoeShape narrow = kShape;
  narrow.hidden_size = 7;
  CHECK(error(narrow, RoutingCounts::uniform(1, 8, 1)) ==
        "routing: hidden_size 7 is less than the 8 experts: no tokens can be made that choose as planned");
  CHECK(error(kShape, RoutingCounts::by_expert(1, {1, 0, 0, 0, 0, 0, 0, 2})) ==
        "routing: source 0 has 3 selections, no multiple of top_k 2");
  CHECK(error(kShape, RoutingCounts::by_expert(1, {3, 0, 0, 0, 0, 0, 0, 1})) ==
        "routing: source 0 has 2 tokens, but 3 for expert 0");
}

}  // namespace moeplan::tests::synthetic_layer_test
