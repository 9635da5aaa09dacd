#include "profiler/fit_gemm_model.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::fit_gemm_model_test {

using Catch::Detail::Approx;
using profiler::MeasuredProduct;

TEST_CASE("A fit finds the numbers that made the measurements") {
  const GemmModel truth{.format = MathFormat::Bf16,
                        .library = "test",
                        .launch = Seconds(3e-6),
                        .math = FlopsPerSecond(700e12),
                        .power = 0,
                        .read = BytesPerSecond(3e12),
                        .write = BytesPerSecond(2e12),
                        .l2 = BytesPerSecond(20e12),
                        .residency = 0,
                        .tile_start = Seconds(1e-6),
                        .k_step = Seconds(0),
                        .split = {},
                        .quantise = BytesPerSecond(0),
                        .scale_padding = Seconds(0)};
  constexpr std::int64_t kSms = 132;
  std::vector<MeasuredProduct> products;
  for (const std::int64_t m : {1, 16, 128, 1024, 8192}) {
    for (const std::int64_t n : {128, 1024, 16384}) {
      for (const std::int64_t k : {128, 2048, 16384}) {
        products.push_back({{m, n, k}, gemm_cost(truth, kSms, {m, n, k}).time()});
      }
    }
  }
  GemmModel start = truth;
  start.launch = Seconds(5e-6);
  start.math = FlopsPerSecond(900e12);
  start.read = BytesPerSecond(4e12);
  const GemmModel fitted = profiler::fit_gemm_model(start, kSms, products);
  CHECK(fitted.launch.value() == Approx(truth.launch.value()).epsilon(0.02));
  CHECK(fitted.math.value() == Approx(truth.math.value()).epsilon(0.02));
  CHECK(fitted.read.value() == Approx(truth.read.value()).epsilon(0.02));
  CHECK(fitted.power == 0);
}

}  // namespace moeplan::tests::fit_gemm_model_test
