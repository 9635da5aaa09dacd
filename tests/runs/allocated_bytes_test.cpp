// Memory of Megatron-LM's functional tests, which record the largest number of bytes that the allocator of the last
// rank has in use.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "model/text/reader.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/runs/imported_plan.hpp"
#include "planner/runs/megatron_arguments.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::tests::allocated_bytes_test {

using namespace planner;

namespace {

struct RecordedJob {
  std::string id, gpu, arguments;
  std::int64_t world = 0;
  double bytes = 0;  // the largest number that was allocated

  [[nodiscard]] bool has(std::string_view text) const { return arguments.find(text) != std::string::npos; }
};

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
  if (job.has("offload") || job.has("fsdp")) return "states or activations elsewhere";
  if (job.world == 0) return "the number of GPUs is not known";
  return std::nullopt;
}

std::vector<RecordedJob> recorded_jobs(const std::filesystem::path& file) {
  std::vector<RecordedJob> out;
  const std::string text = read_text_file(file, std::size_t{1} << 26);
  for (const std::string_view line : profiler::split(text, '\n')) {
    const auto fields = profiler::csv_fields(line);
    if (!fields || fields->size() < 10 || fields->front() == "id") continue;
    out.push_back({.id = fields->front(),
                   .gpu = (*fields)[1],
                   .arguments = (*fields)[9],
                   .world = (*fields)[2].empty() ? 0 : std::atoll((*fields)[2].c_str()),
                   .bytes = (*fields)[7].empty() ? 0 : std::strtod((*fields)[7].c_str(), nullptr)});
    // The released Mixtral jobs: the fewest GPUs that have their degrees.
    if (out.back().id.starts_with("mixtral_8x22b")) out.back().world = 128;
    if (out.back().id.starts_with("mixtral_8x7b")) out.back().world = 64;
  }
  return out;
}

/// What the allocator of the last stage's fullest rank has in use.
double allocated(const RecordedJob& job) {
  runs::MegatronJob read = runs::read_megatron_arguments(job.arguments, "job.args");
  read.row.cluster = job.gpu == "h100_sxm" ? "dgx_h100" : job.gpu == "gb200" ? "gb200_nvl72" : "dgx_a100";
  read.row.world = job.world;
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
  const std::filesystem::path file = MOEPLAN_SOURCE_DIR "/../shared/data/runs/small_runs.csv";
  if (!std::filesystem::exists(file)) {
    WARN("skipped: no small_runs.csv at ../shared/data/runs");
    return;
  }
  // Nothing is fitted to these bytes. Those of A100 are 6 to 9% too low, others 4% too low to 1% too high.
  constexpr double kCeiling = 0.10, kMeanCeiling = 0.05;
  std::vector<double> errors;
  for (const RecordedJob& job : recorded_jobs(file)) {
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
