// A plan: everything that was decided, and what is predicted of it. It stands alone: the resolved cluster, model and
// workload are inside.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/base/document.hpp"
#include "model/base/reader.hpp"
#include "model/costs/estimate.hpp"
#include "model/costs/memory.hpp"
#include "model/program/analysis.hpp"
#include "model/program/timeline.hpp"
#include "model/specs/cluster.hpp"
#include "model/specs/model_spec.hpp"
#include "model/specs/workload.hpp"
#include "planner/candidate.hpp"
#include "planner/search.hpp"
#include "planner/tutel_dictionary.hpp"

namespace moeplan {

/// The three inputs as resolved documents: includes merged, the GPU embedded, overrides applied, Hugging Face
/// configurations converted.
struct PlanInputs {
  Node cluster;
  Node model;
  Node workload;
  std::string cluster_source;  // where each came from, to compare later
  std::string model_source;
  std::string workload_source;
  std::vector<std::string> overrides;  // "cluster.gpu.memory=40 GB"
};

/// One stage is simulated as it is, several by their segments (sim/simulate_stages.hpp).
[[nodiscard]] Timeline simulated(const Program& program, StageMachines& machines, bool keep_spans);

/// What an iteration of the candidate holds on its fullest rank: what every check of memory asks.
[[nodiscard]] MemoryUse iteration_memory(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                         const Candidate& candidate, const Program& program);

/// What a time of an iteration means for a model on a machine.
struct Throughput {
  double tokens_per_s_per_gpu;
  double model_flops_utilization;  // the model's own FLOPs over what all GPUs' peaks could have done meanwhile
};
[[nodiscard]] Throughput throughput(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                    SimTime makespan);

/// What a candidate is predicted to do, in full.
struct Prediction {
  SimTime makespan;
  Estimate estimate;
  MemoryUse memory;
  RankTime binding;  // of the binding rank
  double tokens_per_s_per_gpu = 0;
  double model_flops_utilization = 0;
  Program program;
  Timeline timeline;
};
[[nodiscard]] Prediction predict(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                 const Candidate& candidate);

struct Plan {
  PlanInputs inputs;
  std::int64_t world_size = 0;
  Candidate candidate;
  SimTime makespan;
  Estimate estimate;
  Seconds least_bound;  // over every feasible candidate of the search
  std::vector<TutelDictionary> tutel = {};

  /// How much longer than the bound of its own Program; than the least bound of the search. 0.1 is 10%.
  [[nodiscard]] double schedule_gap() const { return makespan.seconds() / estimate.lower_bound - 1; }
  [[nodiscard]] double optimality_gap() const { return makespan.seconds() / least_bound - 1; }
};

/// YAML, deterministic. Raises InputError where the file cannot be written or read.
void write_plan(const Plan& plan, const std::filesystem::path& path);
[[nodiscard]] Plan read_plan(const std::filesystem::path& path);

/// A candidate as plan files say it: every decision under its key, strictly read.
[[nodiscard]] Node decision_document(const Candidate& candidate);
[[nodiscard]] Candidate read_decision(MapReader decision);

inline constexpr std::int64_t kPlanSchemaVersion = 1;

}  // namespace moeplan
