#include "cuda_runtime/kernels/activation.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

namespace moeplan::tests::activation_test {

TEST_CASE("activations are as exact as fp32 far from zero too") {
  for (double z = -20; z <= 20; z += 1.0 / 64) {
    const double cdf = 0.5 * std::erfc(-z / std::sqrt(2.0)),
                 density = std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0));
    const auto x = static_cast<float>(z);
    // An error of 0.75e-7 of the distribution function, and roundings of fp32.
    REQUIRE(std::abs(static_cast<double>(kernels::gelu(x)) - z * cdf) < 1.5e-7 * std::max(1.0, std::abs(z)));
    REQUIRE(std::abs(static_cast<double>(kernels::gelu_slope(x)) - (cdf + z * density)) < 4e-7);
    REQUIRE(std::abs(static_cast<double>(kernels::sigmoid(x)) - 1 / (1 + std::exp(-z))) < 1e-7);
  }
  for (const float far : {-1e30F, -200.0F}) {
    CHECK(std::abs(kernels::gelu(far)) == 0);
    CHECK(kernels::gelu_slope(far) == 0);
    CHECK(kernels::sigmoid(far) == 0);
  }
  for (const float far : {200.0F, 1e30F}) {
    CHECK(kernels::gelu(far) == far);
    CHECK(kernels::gelu_slope(far) == 1);
    CHECK(kernels::sigmoid(far) == 1);
  }
}

}  // namespace moeplan::tests::activation_test
