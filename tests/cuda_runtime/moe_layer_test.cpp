#include "cuda_runtime/reference/moe_layer.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "cuda_runtime/codecs/make_row_codec.hpp"
#include "cuda_runtime/reference/synthetic_layer.hpp"

namespace moeplan::tests::moe_layer_test {

using namespace moeplan::runtime;

namespace {

MoeShape small(bool gated) { return {.hidden_size = 6, .ffn_size = 5, .experts = 4, .top_k = 2, .gated = gated}; }

/// Counts with an empty expert and one that every token chooses.
RoutingCounts skewed() { return RoutingCounts::by_expert(1, {7, 0, 4, 3}); }

struct Case {
  MoeShape shape;
  MoeWeights weights;
  Matrix tokens;
  Matrix d_output;
};

Case case_of(bool gated) {
  const MoeShape shape = small(gated);
  return {shape, made_weights(shape, Dtype::Fp32, 11), made_tokens(shape, skewed(), RankId(0), Dtype::Fp32, 11),
          made_gradient(shape, 7, RankId(0), Dtype::Fp32, 11)};
}

double loss(const Case& c, std::optional<std::int64_t> capacity) {
  const MoeForward forward = moe_forward(c.shape, StoredWeights(c.weights), c.tokens, capacity);
  double sum = 0;
  for (std::size_t i = 0; i < forward.output.values.size(); ++i) {
    sum += forward.output.values[i] * c.d_output.values[i];
  }
  return sum;
}

/// The difference quotient of the loss by one of the case's numbers.
double quotient(Case& c, double& number, std::optional<std::int64_t> capacity) {
  constexpr double kStep = 1e-5;
  const double kept = number;
  number = kept + kStep;
  const double above = loss(c, capacity);
  number = kept - kStep;
  const double below = loss(c, capacity);
  number = kept;
  return (above - below) / (2 * kStep);
}

}  // namespace

TEST_CASE("one token and one expert by hand") {
  // hidden 1, ffn 1: gelu(2 x 0.5) x 3 = 3 Phi(1); gated: silu(2 x 0.5) x (2 x 0.25) x 3 with silu(1) = 1 / (1 + 1/e).
  MoeShape shape{.hidden_size = 1, .ffn_size = 1, .experts = 1, .top_k = 1, .gated = false};
  const auto matrix = [](std::int64_t rows, std::int64_t columns, std::vector<double> values) {
    Matrix m(rows, columns);
    m.values = std::move(values);
    return m;
  };
  MoeWeights weights{matrix(1, 1, {1}), {matrix(1, 1, {0.5})}, {matrix(1, 1, {3})}};
  const double phi_of_1 = 0.5 * std::erfc(-1 / std::sqrt(2.0));
  CHECK(moe_forward(shape, StoredWeights(weights), matrix(1, 1, {2}), {}).output.values[0] == Approx(3 * phi_of_1));
  shape.gated = true;
  weights.up = {matrix(1, 2, {0.5, 0.25})};
  CHECK(moe_forward(shape, StoredWeights(weights), matrix(1, 1, {2}), {}).output.values[0] ==
        Approx(1 / (1 + std::exp(-1.0)) * 0.5 * 3));
}

TEST_CASE("the weights of the chosen experts are the softmax of their logits and add up to one") {
  const Case c = case_of(false);
  const MoeForward forward = moe_forward(c.shape, StoredWeights(c.weights), c.tokens, {});
  for (const auto& choices : forward.choices) {
    REQUIRE(choices.size() == 2);
    CHECK(choices[0].weight >= choices[1].weight);
    CHECK(choices[0].weight + choices[1].weight == Approx(1));
  }
}

TEST_CASE("gradients are difference quotients") {
  for (const bool gated : {false, true}) {
    for (const std::optional<std::int64_t> capacity : {std::optional<std::int64_t>(), std::optional<std::int64_t>(3)}) {
      INFO((gated ? "gated" : "plain") << ", capacity " << capacity.value_or(0));
      Case c = case_of(gated);
      const MoeForward forward = moe_forward(c.shape, StoredWeights(c.weights), c.tokens, capacity);
      const MoeGradients d = moe_backward(c.shape, StoredWeights(c.weights), c.tokens, forward, c.d_output);
      const auto compare = [&](Matrix& numbers, const Matrix& gradient) {
        for (std::size_t i = 0; i < numbers.values.size(); ++i) {
          REQUIRE(quotient(c, numbers.values[i], capacity) == Approx(gradient.values[i]).epsilon(1e-5).margin(1e-7));
        }
      };
      compare(c.tokens, d.tokens);
      compare(c.weights.gate, d.weights.gate);
      for (std::size_t e = 0; e < 4; ++e) {
        compare(c.weights.up[e], d.weights.up[e]);
        compare(c.weights.down[e], d.weights.down[e]);
      }
    }
  }
}

TEST_CASE("of weights' gradients every n-th row is computed alone, as among all rows") {
  const Case c = case_of(true);
  const StoredWeights weights(c.weights);
  const MoeForward forward = moe_forward(c.shape, weights, c.tokens, {});
  const MoeGradients all = moe_backward(c.shape, weights, c.tokens, forward, c.d_output);
  const MoeGradients some = moe_backward(c.shape, weights, c.tokens, forward, c.d_output, {}, 4);
  CHECK(some.tokens == all.tokens);
  CHECK(some.weights.gate == all.weights.gate);
  const StoredWeights every(all.weights), fourth(some.weights, 4);
  LayerWeights::Scratch scratch;
  const auto is_row = [](std::span<const double> got, std::span<const double> row, std::int64_t r) {
    return r % 4 == 0 ? std::equal(got.begin(), got.end(), row.begin(), row.end()) : got.empty();
  };
  for (std::int64_t e = 0; e < 4; ++e) {
    for (std::int64_t r = 0; r < 6; ++r) CHECK(is_row(fourth.up(e, r, scratch), every.up(e, r, scratch), r));
    for (std::int64_t r = 0; r < 5; ++r) CHECK(is_row(fourth.down(e, r, scratch), every.down(e, r, scratch), r));
  }
  CHECK(some.weights.up.front().rows == 2);  // rows 0 and 4 of 6
  CHECK(moe_backward(c.shape, weights, c.tokens, forward, c.d_output, {}, 0).weights.up.empty());
}

TEST_CASE("an expert takes the first tokens up to its capacity") {
  const Case c = case_of(true);
  const MoeForward all = moe_forward(c.shape, StoredWeights(c.weights), c.tokens, {});
  const MoeForward some = moe_forward(c.shape, StoredWeights(c.weights), c.tokens, 3);
  std::int64_t kept = 0;
  bool dropped = false;
  for (std::size_t t = 0; t < all.choices.size(); ++t) {
    for (std::size_t i = 0; i < 2; ++i) {
      CHECK(all.choices[t][i].is_kept);
      CHECK(all.choices[t][i].weight == some.choices[t][i].weight);  // dropping does not change what is kept
      if (some.choices[t][i].expert != 0) continue;
      CHECK(some.choices[t][i].is_kept == !dropped);  // in order of token
      kept += some.choices[t][i].is_kept ? 1 : 0;
      dropped = kept == 3;
    }
  }
  CHECK(kept == 3);
  SECTION("a token all of whose experts are full gives zeros and takes no gradient") {
    const MoeForward none = moe_forward(c.shape, StoredWeights(c.weights), c.tokens, 0);
    for (const double v : none.output.values) REQUIRE(v == 0);
    const MoeGradients d = moe_backward(c.shape, StoredWeights(c.weights), c.tokens, none, c.d_output);
    for (const double v : d.tokens.values) REQUIRE(v == 0);
    for (const double v : d.weights.gate.values) REQUIRE(v == 0);
  }
}

TEST_CASE("a codec on the wire changes what experts see, by as much as it loses") {
  const Case c = case_of(true);
  const auto codec = make_row_codec(WireFormat::Int8, {});
  const RowLoss loss_of_row = [&](std::span<double> row) {
    std::vector<float> values(row.begin(), row.end());
    pass_through(*codec, values.size(), values);
    std::copy(values.begin(), values.end(), row.begin());
  };
  const Matrix exact = moe_forward(c.shape, StoredWeights(c.weights), c.tokens, {}).output;
  const Matrix lossy = moe_forward(c.shape, StoredWeights(c.weights), c.tokens, {}, {loss_of_row, loss_of_row}).output;
  double most = 0, difference = 0;
  for (std::size_t i = 0; i < exact.values.size(); ++i) {
    most = std::max(most, std::abs(exact.values[i]));
    difference = std::max(difference, std::abs(exact.values[i] - lossy.values[i]));
  }
  CHECK(difference > 0);
  CHECK(difference < 0.05 * most);  // a step is 1/127 of a row's largest value, on the way there and back
}

}  // namespace moeplan::tests::moe_layer_test
