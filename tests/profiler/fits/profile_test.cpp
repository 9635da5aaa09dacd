#include "profiler/fits/profile.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "model/costs/compute.hpp"
#include "model/machine/cluster.hpp"
#include "model/text/unit_text.hpp"
#include "tests/support/checks.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::profile_test {

using namespace moeplan::profiler;
using moeplan::tests::error_of;

namespace {

/// 1 KiB ... 64 MiB, alpha + n beta.
void add(std::vector<CollectiveSample>& samples, Collective c, GroupShape shape, AlphaBeta cost, bool in_place = false,
         double least = 1024) {
  for (double n = least; n <= 0x1p26; n *= 2) {
    samples.push_back({.collective = c,
                       .shape = shape,
                       .n = Bytes(n),
                       .time = cost.alpha + Bytes(n) * cost.beta,
                       .in_place = in_place,
                       .dtype = "float",
                       .device = "GPU",
                       .where = {"log", 7}});
  }
}

constexpr AlphaBeta kFast{Seconds(8e-6), SecondsPerByte(3e-12)};
constexpr AlphaBeta kSlow{Seconds(40e-6), SecondsPerByte(20e-12)};

}  // namespace

TEST_CASE("a profile is what a cluster file includes") {
  std::vector<CollectiveSample> samples;
  add(samples, Collective::AllToAll, {8, 1}, kFast);
  add(samples, Collective::AllToAll, {16, 2}, kSlow);
  const auto fits = fit_collectives(samples);
  REQUIRE(fits.size() == 2);
  Node document = load_document(tests::cluster_path("dgx_h100"));
  embed_files(document, {tests::kConfigs / "gpus"});
  merge(document, parse_yaml(to_yaml(collective_profile(fits, "nccl-tests a.log")), "profile.yaml"));
  const ClusterSpec spec = read_cluster(document);
  REQUIRE(spec.collectives.size() == 2);
  for (const auto& [key, cost] : costs_of(fits, Seconds(0))) {
    CHECK(spec.collectives.at(key).alpha.value() == Approx(cost.alpha.value()));
    CHECK(spec.collectives.at(key).beta.value() == Approx(cost.beta.value()));
  }
  CHECK(spec.collectives.begin()->second.alpha.value() == Approx(8e-6));
}

TEST_CASE("what serves another purpose is left out or kept apart") {
  std::vector<CollectiveSample> samples;
  SECTION("columns in place that take the same") {
    add(samples, Collective::AllToAll, {8, 1}, kFast);
    add(samples, Collective::AllToAll, {8, 1}, {kFast.alpha * 1.01, kFast.beta * 1.01}, true);
    CHECK(fit_collectives(samples).size() == 1);
  }
  SECTION("those that take less stand beside, by the fastest of repeated runs") {
    add(samples, Collective::AllToAll, {2, 2}, kSlow);
    add(samples, Collective::AllToAll, {2, 2}, {kSlow.alpha, kSlow.beta * 0.9}, true);
    add(samples, Collective::AllToAll, {2, 2}, {kSlow.alpha, kSlow.beta * 0.8}, true);
    const auto fits = fit_collectives(samples);
    REQUIRE(fits.size() == 2);
    CHECK(fits[1].in_place);
    CHECK(fits[1].curve.pieces.back().cost.beta.value() == Approx(16e-12));
  }
  SECTION("other collectives in place, unless nothing else was measured") {
    add(samples, Collective::AllGather, {2, 2}, kSlow);
    add(samples, Collective::AllGather, {2, 2}, kFast, true);
    add(samples, Collective::AllReduce, {2, 2}, kFast, true);
    const auto fits = fit_collectives(samples);
    REQUIRE(fits.size() == 2);
    CHECK_FALSE(fits[0].in_place);
    CHECK(fits[1].collective == Collective::AllReduce);
  }
}

TEST_CASE("messages that are too large to tell the start-up leave it to the cluster") {
  std::vector<CollectiveSample> samples;
  add(samples, Collective::AllToAll, {8, 1}, kFast, false, 0x1p25);  // 101 us and more: 8 us are less than a tenth
  const auto fits = fit_collectives(samples);
  CHECK_FALSE(tells_startup(fits[0]));
  CHECK(costs_of(fits, Seconds(6e-6)).begin()->second.alpha.value() == 6e-6);
  CHECK(collective_profile(fits, "x").find("collectives")->items[0].find("alpha") == nullptr);
}

TEST_CASE("impossible samples are refused with their line") {
  std::vector<CollectiveSample> samples;
  add(samples, Collective::AllToAll, {8, 1}, kFast);
  samples[3].time = Seconds(1e-12);
  CHECK(error_of([&] { static_cast<void>(fit_collectives(samples)); }) ==
        "log:7: 8192 B in 1.000 ps is impossible: 8192 TB/s");
}

TEST_CASE("GEMMs give a GPU's curve, launch and memory share") {
  Diagnostics none;
  const Node document = load_document(tests::kConfigs / "gpus/h100_sxm.yaml");
  const GpuSpec gpu = tests::load_gpu("h100_sxm");
  // A GPU whose GEMMs take exactly what the model says: 40 % of the peak, 3 us launch.
  GpuSpec made = gpu;
  made.gemm_efficiency = {{1, 0.4}};
  made.launch_overhead = Seconds(3e-6);
  std::vector<GemmSample> samples;
  for (std::int64_t size = 16; size <= 16384; size *= 2) {
    for (std::int64_t k = 16; k <= 16384; k *= 4) {
      const std::int64_t bytes = 2 * (2 * size * k + size * size);
      samples.push_back({size, size, k, "bf16", gemm_time(made, Dtype::Bf16, {size, size, k}, bytes), {"g.csv", 9}});
    }
  }
  const GemmFit fit = fit_gemms(samples, gpu);
  CHECK(fit.launch.value() == Approx(3e-6).epsilon(0.01));
  REQUIRE_FALSE(fit.efficiency.empty());
  CHECK(fit.efficiency.back().efficiency == Approx(0.4).epsilon(0.02));  // the launch is told from real GEMMs
  CHECK(fit.quality.median_error < 0.05);
  SECTION("that a GPU file includes") {
    Node with = document;
    merge(with, parse_yaml(to_yaml(gemm_profile(fit, "table g.csv")), "p.yaml"));
    const GpuSpec read = read_gpu(MapReader(with, "", none));
    CHECK(none.empty());
    CHECK(read.gemm_efficiency.size() == fit.efficiency.size());
    CHECK(read.launch_overhead.value() == Approx(3e-6).epsilon(0.01));
  }
  SECTION("large ones do not tell the launch: the GPU's own stays, and the profile does not say it") {
    // 2048 x 2048 x 4096 and more: 34 GFLOP take 35 us at the peak.
    std::erase_if(samples, [](const GemmSample& sample) { return std::min(sample.m, sample.k) < 2048; });
    const std::vector<GemmSample> once = samples;
    for (int i = 0; i < 4; ++i) samples.insert(samples.end(), once.begin(), once.end());
    const GemmFit large = fit_gemms(samples, gpu);
    CHECK_FALSE(large.measures_launch);
    CHECK(large.launch == gpu.launch_overhead);
    CHECK(large.efficiency.back().efficiency == Approx(0.4).epsilon(0.02));
    CHECK(fit_table(large).starts_with("bf16 GEMMs: launch " + human(gpu.launch_overhead) +
                                       " (the GPU's file: no GEMM here is small enough to tell)"));
    Node with = document;
    const Node profile = gemm_profile(large, "table g.csv");
    CHECK_FALSE(profile.find("launch_overhead"));
    merge(with, parse_yaml(to_yaml(profile), "p.yaml"));
    CHECK(read_gpu(MapReader(with, "", none)).launch_overhead == gpu.launch_overhead);
    CHECK(none.empty());
  }
  SECTION("and those faster than the peak are refused with their line") {
    samples[samples.size() / 2].time = Seconds(1e-9);
    CHECK(error_of([&] { static_cast<void>(fit_gemms(samples, gpu)); }).starts_with("g.csv:9: is impossible: "));
    samples[1] = {16, 16, 16, "fp16", Seconds(1), {"g.csv", 3}};
    CHECK(error_of([&] { static_cast<void>(fit_gemms(samples, gpu)); }) ==
          "g.csv:3: dtype: is fp16 after bf16: one profile is of one format; cut the file in two");
    const std::vector<GemmSample> small(9, {16, 16, 16, "bf16", Seconds(3e-6), {"g.csv", 2}});
    CHECK(error_of([&] { static_cast<void>(fit_gemms(small, gpu)); }) ==
          "g.csv:2: and the rest: no 5 GEMMs of about one size are decided by FLOPs; measure larger ones");
  }
}

}  // namespace moeplan::tests::profile_test
