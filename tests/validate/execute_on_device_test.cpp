// A job of moeplan validate on ranks that share a device, on a CPU that stands in for one: what a GPU's worker does.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>

#include "cuda_runtime/device/loopback_session.hpp"
#include "cuda_runtime/validate/execute.hpp"
#include "tests/device/fake_device.hpp"

namespace moeplan::tests::execute_on_device_test {

using namespace moeplan::planner;
using namespace moeplan::profiler;
using namespace moeplan::runtime;
using namespace moeplan::validate;

namespace {

LayerCase layer_of(std::int64_t experts, Dtype dtype) {
  Workload w{};
  w.name = "w";
  w.global_batch = 2;
  w.sequence_length = 8;
  w.mode = Mode::Train;
  w.dtype = dtype;
  w.recompute = Recompute::None;
  w.optimizer = Optimizer::Adam;
  Candidate c;
  c.degrees = {.dp = 2, .ep = 2};
  return {.moe = {experts, 2, {8, true, false}, {0, false, false}, false, false},
          .hidden_size = 16,
          .tokens = 8,
          .workload = w,
          .candidate = c,
          .ranks_per_node = 2};
}

}  // namespace

TEST_CASE("Ranks that share a device execute a job's cases one after the other") {
  const bool captures = GENERATE(false, true);
  tests::FakeDevice device(3);
  ExecuteJob job{
      .limits = {.iterations = 3}, .cases = {layer_of(4, Dtype::Fp32), layer_of(6, Dtype::Bf16)}, .measure = {}};
  job.cases.push_back(job.cases.front());
  job.cases.back().workload.dtype = Dtype::Fp8;
  // A training step: values once, then runs in which weights stay.
  LayerCase step = layer_of(4, Dtype::Bf16);
  step.is_step = true;
  step.moe.shared = {12, true, false};
  step.workload.gradient_dtype = Dtype::Bf16;
  step.workload.zero_stage = 1;
  job.cases.insert(job.cases.begin() + 2, step);
  job.cases.push_back(as_executed(layer_of(4, Dtype::Fp32), /*on_gpus=*/true));
  std::vector<ExecutionResult> results;
  {
    LoopbackSession session(device, 2, {.captures = captures, .slab = 0});
    session.run([&](Peers& peers) {
      const Answer mine = answer(job, peers, {"machine", {"GPU"}, [&](const CodecOptions& codecs) {
                                                return session.make_backend(peers.rank(), codecs);
                                              }});
      if (peers.rank().value() == 0) results = mine.cases;
    });
  }
  CHECK(device.is_clean());
  REQUIRE(results.size() == 5);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(results[i].refused == "");
    CHECK(results[i].is_right);
    CHECK(results[i].stopped_by == "iterations");
    REQUIRE(results[i].runs.size() == 3);
    for (const auto& ranks : results[i].runs) {
      REQUIRE(ranks.size() == 2);
      for (const auto& spans : ranks) {
        // The device's clock goes on a microsecond a command: every operation has its time.
        CHECK(
            std::all_of(spans.begin(), spans.end(), [](const RanSpan& s) { return 0 <= s.start && s.start < s.end; }));
      }
    }
  }
  CHECK(results[2].values.update > 0);
  CHECK(results[4].is_right);
  CHECK(results[3].refused.find("fp8 is not computed with on GPUs") != std::string::npos);
}

}  // namespace moeplan::tests::execute_on_device_test
