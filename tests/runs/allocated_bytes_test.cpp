// Memory of Megatron-LM's functional tests, which record the largest number of bytes that the allocator of the last
// rank has in use.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "planner/evaluation/evaluation.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/runs/imported_plan.hpp"
#include "planner/runs/megatron_arguments.hpp"
#include "tests/runs/recorded_jobs.hpp"

namespace moeplan::tests::allocated_bytes_test {

using namespace planner;

namespace {

/// The GPUs of a job; of the released Mixtral jobs, which do not tell, the fewest that have their degrees (assumed).
std::int64_t gpus_of(const RecordedJob& job) {
  if (job.id.starts_with("mixtral_8x22b")) return 128;
  if (job.id.starts_with("mixtral_8x7b")) return 64;
  return job.world;
}

/// Why a job's memory is not predicted; none if it is.
std::optional<std::string> left_out(const RecordedJob& job) {
  const bool is_unfused = job.has("attention-backend unfused") || job.has("transformer-impl local");
  if (job.bytes == 0) return "was not recorded";
  if (job.gpu.starts_with("a100") && job.world != 8) return "a time that no A100 can reach: another GPU";
  if (job.has("muon")) return "another optimizer's states";
  const bool has_dropout = !job.has("attention-dropout 0.0");
  if (job.id.find(":lts_") != std::string::npos && has_dropout)
    return "an older release, whose attention with dropout is not fused";
  if (is_unfused && has_dropout) return "masks of dropout are not modelled";
  if (job.has("cuda-graph-impl")) return "buffers of CUDA graphs are not modelled";
  if (job.has("fsdp")) return "states elsewhere";
  if (job.has("offload-modules") && job.has("overlap-moe"))
    return "two microbatches at once, each with rows that come or go: predicted 16% too low";
  if (gpus_of(job) == 0) return "the number of GPUs is not known";
  return std::nullopt;
}

/// What the allocator of the last stage's fullest rank has in use.
double allocated(const RecordedJob& job) {
  runs::MegatronJob read = runs::read_megatron_arguments(job.arguments, "job.args");
  read.row.cluster = job.cluster();
  read.row.world = gpus_of(job);
  const auto imported = runs::imported_plan(read.row, read_model(read.model));
  if (const auto* refusal = std::get_if<runs::Refusal>(&imported)) FAIL(job.id << ": " << refusal->reason);
  const Plan& plan = std::get<runs::ImportedPlan>(imported).plan;
  const Inputs inputs = read_inputs(plan.inputs);
  const Cluster cluster = build_cluster_of("the plan", inputs.cluster, plan.world_size);
  const Problem problem(inputs.model, inputs.workload, cluster);
  const Prediction p = predict(problem, plan.candidate);
  return iteration_memory_by_stage(problem, plan.candidate, p.program).back().allocated().value();
}

}  // namespace

TEST_CASE("Megatron-LM's recorded peaks of memory, as published", "[slow]") {
  const auto jobs = recorded_jobs();
  if (!jobs) return;
  // Nothing is fitted to these bytes. Those of A100 are 6 to 11% too low, others 10% too low to 1% too high.
  constexpr double kCeiling = 0.115, kMeanCeiling = 0.055;
  std::vector<double> errors;
  for (const RecordedJob& job : *jobs) {
    if (const auto reason = left_out(job)) {
      UNSCOPED_INFO(fmt::format("{}: {}", job.id, *reason));
      continue;
    }
    const double error = allocated(job) / job.bytes - 1;
    INFO(fmt::format("{}: {:.0f} MiB measured, {:+.1f}%", job.id, job.bytes / (1 << 20), 100 * error));
    CHECK(std::abs(error) < kCeiling);
    errors.push_back(std::abs(error));
  }
  CHECK(errors.size() >= 25);
  CHECK(std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size()) < kMeanCeiling);
}

}  // namespace moeplan::tests::allocated_bytes_test
