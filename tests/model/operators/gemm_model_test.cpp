#include "model/operators/gemm_model.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace moeplan::tests::gemm_model_test {

using Catch::Detail::Approx;

namespace {

/// 100 SMs of 1 TFLOP/s; nothing but what a test asks for takes time.
GemmModel machine() {
  return {.format = MathFormat::Bf16,
          .library = "test",
          .launch = Seconds(0),
          .math = FlopsPerSecond(100e12),
          .power = 0,
          .read = BytesPerSecond(1e18),
          .write = BytesPerSecond(1e18),
          .l2 = BytesPerSecond(1e18),
          .residency = 0,
          .tile_start = Seconds(0),
          .k_step = Seconds(0),
          .split = {},
          .quantise = BytesPerSecond(0),
          .scale_padding = Seconds(0)};
}
constexpr std::int64_t kSms = 100;

}  // namespace

TEST_CASE("A large product takes its FLOPs at the rate of all SMs") {
  const GemmShape large{25600, 25600, 4096};  // 100 x 100 whole tiles of 256 x 256: whole waves
  CHECK(gemm_cost(machine(), kSms, large).time().value() == Approx(2.0 * 25600 * 25600 * 4096 / 100e12));
  CHECK(gemm_cost(machine(), kSms, large).bound() == "math");
}

TEST_CASE("A product with fewer tiles than SMs takes as long as one tile") {
  // The smallest tile is 64 x 16, one for each of 4 SMs; without k splits the others are idle.
  const Seconds one = gemm_cost(machine(), kSms, {64, 64, 4096}).time();
  CHECK(one.value() == Approx(2.0 * 64 * 16 * 4096 / 1e12));
  GemmModel splits = machine();
  splits.split = Seconds(0);
  CHECK(gemm_cost(splits, kSms, {64, 64, 4096}).time().value() == Approx(one.value() / 16));
  splits.split = Seconds(1);
  CHECK(gemm_cost(splits, kSms, {64, 64, 4096}).time() == one);
}

TEST_CASE("A product costs the same however many models were asked in between") {
  const GemmShape shape{640, 4096, 4096};
  std::vector<GemmCost> first;
  for (int turn = 0; turn < 2; ++turn) {
    for (int i = 0; i < 200; ++i) {
      GemmModel m = machine();
      m.math = FlopsPerSecond((1 + i) * 1e12);
      const GemmCost cost = gemm_cost(m, kSms, shape);
      if (turn == 0) first.push_back(cost);
      CHECK(cost == first[static_cast<std::size_t>(i)]);
      CHECK(cost.math.value() == Approx(first[0].math.value() / (1 + i)));
    }
  }
}

TEST_CASE("A product of few rows takes the bytes of its operands and results") {
  GemmModel m = machine();
  m.read = BytesPerSecond(1e12);
  m.write = BytesPerSecond(0.5e12);
  const GemmCost cost = gemm_cost(m, kSms, {16, 65536, 8192});
  const double operands = 2 * (16.0 * 8192 + 65536.0 * 8192), results = 2 * 16.0 * 65536;
  CHECK(cost.memory.value() == Approx(operands / 1e12 + results / 0.5e12));
  CHECK(cost.bound() == "memory");
  CHECK(cost.time().value() == Approx(cost.memory.value()).epsilon(0.01));
}

TEST_CASE("Math and memory of equal length take the cube root of two times as long as either") {
  GemmModel m = machine();
  const GemmShape shape{25600, 25600, 4096};
  const double operands = 2 * 2.0 * 25600 * 4096;
  m.read = BytesPerSecond(operands / gemm_cost(m, kSms, shape).math.value());
  const GemmCost cost = gemm_cost(m, kSms, shape);
  CHECK(cost.time().value() == Approx(std::cbrt(2.0) * cost.math.value()).epsilon(1e-4));
}

TEST_CASE("A batch of products with the same B has the tiles of all, and reads B once") {
  // 8 rows of each of 100 sources: a tile of 16 x 256 for each, half of it empty; as one product 13 tiles of 64 rows.
  const GemmShape of_source{8, 256, 4096};
  CHECK(batched_gemm_cost(machine(), kSms, of_source, 100).time().value() == Approx(2.0 * 16 * 256 * 4096 / 1e12));
  CHECK(batched_gemm_cost(machine(), kSms, {512, 2048, 4096}, 1) == gemm_cost(machine(), kSms, {512, 2048, 4096}));
  GemmModel reads = machine();
  reads.read = BytesPerSecond(1e9);
  const double bytes = 2 * (100.0 * 8 * 4096 + 256.0 * 4096);
  CHECK(batched_gemm_cost(reads, kSms, of_source, 100).time().value() == Approx(bytes / 1e9));
}

TEST_CASE("Power slows down products above 3e11 FLOPs only") {
  GemmModel m = machine();
  m.power = 0.1;
  const GemmShape small{2560, 2560, 4096}, large{25600, 25600, 4096};
  CHECK(gemm_cost(m, kSms, small).time() == gemm_cost(machine(), kSms, small).time());
  const double flops = 2.0 * 25600 * 25600 * 4096;
  CHECK(gemm_cost(m, kSms, large).time() / gemm_cost(machine(), kSms, large).time() ==
        Approx(std::pow(flops / 3e11, 0.1)));
}

TEST_CASE("Quantisation is a kernel of its own before the product") {
  GemmModel m = machine();
  m.launch = Seconds(1e-6);
  m.quantise = BytesPerSecond(1e12);
  const GemmCost cost = gemm_cost(m, kSms, {1000, 64, 4096});
  CHECK(cost.launch.value() == Approx(2e-6));
  CHECK(cost.quantisation.value() == Approx(3.0 * 1000 * 4096 / 1e12));
}

TEST_CASE("Scales are padded if the rows are not a multiple of four") {
  GemmModel m = machine();
  m.scale_padding = Seconds(1);
  CHECK(gemm_cost(m, kSms, {64, 64, 4096}).time() < Seconds(1));
  CHECK(gemm_cost(m, kSms, {65, 64, 4096}).time() > Seconds(1));
  CHECK(gemm_cost(m, kSms, {1, 64, 4096}).time() < Seconds(1));
  CHECK(gemm_cost(m, kSms, {65, 64, 128}).time() < Seconds(1));
}

TEST_CASE("Weight gradients read and write their results in fp32 and take their own rate") {
  GemmModel m = machine();
  m.write = BytesPerSecond(1e12);
  m.wgrad = 1.5;
  const GemmShape shape{4096, 4096, 64};
  const GemmCost forward = gemm_cost(m, kSms, shape), wgrad = gemm_cost(m, kSms, shape, {.phase = GemmPhase::Wgrad});
  CHECK(forward.memory.value() == Approx(2 * 4096.0 * 4096 / 1e12).epsilon(1e-3));
  CHECK(wgrad.memory / forward.memory == Approx(4).epsilon(1e-3));
  GemmModel slower = m;
  slower.accumulate = BytesPerSecond(0.5e12);
  CHECK(gemm_cost(slower, kSms, shape, {.phase = GemmPhase::Wgrad}).memory / forward.memory == Approx(8).epsilon(1e-3));
  CHECK(gemm_cost(slower, kSms, shape) == forward);
  const GemmShape large{25600, 25600, 4096};
  CHECK(gemm_cost(m, kSms, large, {.phase = GemmPhase::Wgrad}).math / gemm_cost(m, kSms, large).math == Approx(1.5));
  CHECK(gemm_cost(m, kSms, large, {.phase = GemmPhase::Dgrad}) == gemm_cost(m, kSms, large));
}

TEST_CASE("Operands that arrive quantised, and sustained clocks") {
  GemmModel m = machine();
  m.launch = Seconds(1e-6);
  m.quantise = BytesPerSecond(1e12);
  const GemmShape shape{2560, 2560, 4096};
  const GemmCost whole = gemm_cost(m, kSms, shape), product = gemm_cost(m, kSms, shape, {.quantises = false});
  CHECK(product.launch.value() == Approx(1e-6));
  CHECK(product.quantisation == Seconds(0));
  CHECK(product.math == whole.math);
  CHECK(gemm_cost(m, kSms, shape, {.slowdown = 1.25}).math / whole.math == Approx(1.25));
}

TEST_CASE("A model is read from an entry of a file, with what is optional left out") {
  const Node entry = parse_yaml(
      "{format: fp8, library: mine, launch: 2.5 us, math: 1600 TFLOP/s, read: 4 TB/s, write: 3 TB/s, l2: 20 TB/s, "
      "residency: 0.5, tile_start: 1 us, k_step: 2 ns, wgrad: 1.25}",
      "f");
  Diagnostics wrong;
  const GemmModel m = read_gemm_model({entry, "", wrong});
  CHECK(wrong.empty());
  CHECK(m.format == MathFormat::Fp8);
  CHECK(m.launch.value() == Approx(2.5e-6));
  CHECK(m.math == FlopsPerSecond(1600e12));
  CHECK(m.k_step.value() == Approx(2e-9));
  CHECK(m.wgrad == 1.25);
  CHECK(m.power == 0);
  CHECK_FALSE(m.split);
  CHECK(m.quantise == BytesPerSecond(0));
}

}  // namespace moeplan::tests::gemm_model_test
