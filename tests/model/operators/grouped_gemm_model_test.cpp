#include "model/operators/grouped_gemm_model.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace moeplan::tests::grouped_gemm_model_test {

using Catch::Detail::Approx;

namespace {

/// 100 SMs of 1 TFLOP/s; nothing but what a test asks for takes time.
GroupedGemmModel machine() {
  GroupedGemmModel m;
  m.library = "test";
  m.math = FlopsPerSecond(100e12);
  m.memory = m.l2 = BytesPerSecond(1e18);
  return m;
}
constexpr std::int64_t kSms = 100;

Seconds time_of(const GroupedGemmModel& model, const std::vector<ExpertLoad>& loads, std::int64_t n, std::int64_t k) {
  return grouped_gemm_cost(model, kSms, loads, n, k).time();
}

}  // namespace

TEST_CASE("A grouped product of full waves takes its FLOPs at the rate of all SMs") {
  // 25 experts with 16 x 2 tiles of 128 x 256 each: 8 waves of 100 tiles.
  const double flops = 2.0 * 25 * 2048 * 512 * 4096;
  CHECK(time_of(machine(), {{2048, 25}}, 512, 4096).value() == Approx(flops / 100e12));
  CHECK(grouped_gemm_cost(machine(), kSms, std::vector<ExpertLoad>{{2048, 25}}, 512, 4096).bound() == "math");
}

TEST_CASE("Loads that are counted together and products that are listed one by one cost the same") {
  const std::vector<ExpertLoad> loads{{100, 2}, {300, 1}};
  const std::vector<GemmShape> products{{100, 512, 1024}, {0, 512, 1024}, {300, 512, 1024}, {100, 512, 1024}};
  CHECK(grouped_gemm_cost(machine(), kSms, products).time() == time_of(machine(), loads, 512, 1024));
  const std::vector<GemmShape> gradients{{1024, 512, 100}, {1024, 512, 300}, {1024, 512, 0}, {1024, 512, 100}};
  const GemmCall wgrad{.phase = GemmPhase::Wgrad};
  CHECK(grouped_gemm_cost(machine(), kSms, gradients, wgrad).time() ==
        grouped_gemm_cost(machine(), kSms, loads, 512, 1024, wgrad).time());
}

TEST_CASE("Experts without rows cost nothing") {
  CHECK(time_of(machine(), {}, 512, 1024) == Seconds(0));
  CHECK(time_of(machine(), {{0, 8}}, 512, 1024) == Seconds(0));
  GroupedGemmModel memory = machine();
  memory.memory = BytesPerSecond(1e12);
  CHECK(time_of(memory, {{64, 3}, {0, 5}}, 512, 1024) == time_of(memory, {{64, 3}}, 512, 1024));
}

TEST_CASE("A grouped product of few rows reads the weights of every expert") {
  GroupedGemmModel m = machine();
  m.memory = BytesPerSecond(1e12);
  const GroupedGemmCost cost = grouped_gemm_cost(m, kSms, std::vector<ExpertLoad>{{4, 64}}, 4096, 2048);
  const double bytes = 2 * 64.0 * (4 * 2048 + 4096 * 2048 + 4 * 4096);
  CHECK(cost.memory.value() == Approx(bytes / 1e12));
  CHECK(cost.bound() == "memory");
  CHECK(cost.time().value() == Approx(bytes / 1e12).epsilon(0.02));
}

TEST_CASE("Grouped weight gradients read and write their results in fp32 and take their own rate") {
  GroupedGemmModel m = machine();
  m.memory = BytesPerSecond(1e12);
  const std::vector<GemmShape> products(16, GemmShape{4096, 2048, 64});
  const double operands = 2 * 16.0 * (4096 * 64 + 2048 * 64), results = 16.0 * 4096 * 2048;
  const GroupedGemmCost wgrad = grouped_gemm_cost(m, kSms, products, {.phase = GemmPhase::Wgrad});
  CHECK(grouped_gemm_cost(m, kSms, products).memory.value() == Approx((operands + 2 * results) / 1e12));
  CHECK(wgrad.memory.value() == Approx((operands + 8 * results) / 1e12));
  GroupedGemmModel slow = machine();
  slow.wgrad = 1.5;
  const Seconds before = grouped_gemm_cost(machine(), kSms, products, {.phase = GemmPhase::Wgrad}).time();
  CHECK(grouped_gemm_cost(slow, kSms, products, {.phase = GemmPhase::Wgrad}).time() / before == Approx(1.5));
  CHECK(grouped_gemm_cost(slow, kSms, products, {.phase = GemmPhase::Dgrad}).time() ==
        grouped_gemm_cost(machine(), kSms, products).time());
}

TEST_CASE("Weight gradients of uneven experts take the sum of their k loops") {
  // 128 x 256 outputs, one tile an expert, and 100 experts on 100 SMs: the mean k counts, as in a persistent kernel.
  std::vector<GemmShape> uneven(100, GemmShape{128, 256, 1024});
  for (std::size_t e = 0; e < 50; ++e) uneven[e].k = 3072;
  const std::vector<GemmShape> even(100, GemmShape{128, 256, 2048});
  const GemmCall wgrad{.phase = GemmPhase::Wgrad};
  CHECK(grouped_gemm_cost(machine(), kSms, uneven, wgrad).math.value() ==
        Approx(grouped_gemm_cost(machine(), kSms, even, wgrad).math.value()));
}

TEST_CASE("Sustained clocks slow down the math alone") {
  const std::vector<ExpertLoad> loads{{2048, 25}};
  const GemmCall sustained{.slowdown = 1.25};
  CHECK(grouped_gemm_cost(machine(), kSms, loads, 512, 4096, sustained).time() / time_of(machine(), loads, 512, 4096) ==
        Approx(1.25));
  GroupedGemmModel memory = machine();
  memory.memory = BytesPerSecond(1e9);
  CHECK(grouped_gemm_cost(memory, kSms, loads, 512, 4096, sustained).memory ==
        grouped_gemm_cost(memory, kSms, loads, 512, 4096).memory);
}

TEST_CASE("Rows that are no multiple of 16 bytes are slow where the kernel cannot load them at once") {
  GroupedGemmModel m = machine();
  m.unaligned = 10;
  CHECK(time_of(m, {{128, 8}}, 512, 64) == time_of(machine(), {{128, 8}}, 512, 64));
  CHECK(time_of(m, {{128, 8}}, 512, 60) / time_of(machine(), {{128, 8}}, 512, 60) == Approx(10));
}

TEST_CASE("More rows never take less time, apart from tiles that fit worse") {
  GroupedGemmModel m = machine();
  m.memory = BytesPerSecond(3e12);
  m.l2 = BytesPerSecond(20e12);
  m.tile_start = m.tile = Seconds(1e-6);
  m.k_step = Seconds(0.2e-6);
  Seconds before(0);
  for (double rows = 1; rows < 5000; rows = std::ceil(rows * 1.07)) {
    const Seconds now = time_of(m, {{rows, 16}}, 2048, 4096);
    CAPTURE(rows);
    CHECK(now.value() > before.value() * 0.97);
    before = std::max(before, now);
  }
}

}  // namespace moeplan::tests::grouped_gemm_model_test
