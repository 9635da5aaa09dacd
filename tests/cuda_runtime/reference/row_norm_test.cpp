#include "cuda_runtime/reference/row_norm.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "model/base/random.hpp"

namespace moeplan::tests::row_norm_test {

using namespace moeplan::runtime;

namespace {

Matrix normal_values(std::int64_t rows, std::int64_t columns, std::uint64_t seed) {
  Random random(seed);
  Matrix m(rows, columns);
  for (double& x : m.values) x = random.normal();
  return m;
}

double loss(const Matrix& rows, const Matrix& weights, const Matrix& d_normed) {
  const Matrix normed = norm_forward(rows, weights);
  double sum = 0;
  for (std::size_t i = 0; i < normed.values.size(); ++i) sum += normed.values[i] * d_normed.values[i];
  return sum;
}

}  // namespace

TEST_CASE("A row's norm by hand") {
  Matrix row(1, 2), weights(1, 2);
  row.values = {1, 7};
  weights.values = {2, 3};
  SECTION("RMSNorm: the mean square is (1 + 49) / 2 = 25") {
    const Matrix normed = norm_forward(row, weights);
    const double root = std::sqrt(25 + kNormEpsilon);
    CHECK(normed.values[0] == Approx(2 * 1 / root).epsilon(1e-14));
    CHECK(normed.values[1] == Approx(3 * 7 / root).epsilon(1e-14));
  }
  SECTION("LayerNorm: the mean is 4, the variance 9") {
    weights = Matrix(2, 2);
    weights.values = {2, 3, 10, 20};
    const Matrix normed = norm_forward(row, weights);
    const double deviation = std::sqrt(9 + kNormEpsilon);
    CHECK(normed.values[0] == Approx(2 * -3 / deviation + 10).epsilon(1e-14));
    CHECK(normed.values[1] == Approx(3 * 3 / deviation + 20).epsilon(1e-14));
  }
}

TEST_CASE("The gradients of a norm are the difference quotients") {
  const std::int64_t rows_of_weights = GENERATE(1, 2);
  Matrix rows = normal_values(3, 5, 1), weights = normal_values(rows_of_weights, 5, 2);
  const Matrix d_normed = normal_values(3, 5, 3);
  const NormGradients d = norm_backward(rows, weights, d_normed);
  const auto quotient = [&](double& number) {
    constexpr double kStep = 1e-5;
    const double kept = number;
    number = kept + kStep;
    const double above = loss(rows, weights, d_normed);
    number = kept - kStep;
    const double below = loss(rows, weights, d_normed);
    number = kept;
    return (above - below) / (2 * kStep);
  };
  for (std::size_t i = 0; i < rows.values.size(); ++i)
    CHECK(d.rows.values[i] == Approx(quotient(rows.values[i])).margin(1e-8));
  for (std::size_t i = 0; i < weights.values.size(); ++i)
    CHECK(d.weights.values[i] == Approx(quotient(weights.values[i])).margin(1e-8));
}

}  // namespace moeplan::tests::row_norm_test
