// A plan: everything that was decided, and what is predicted of it. It stands alone: the resolved cluster, model and
// workload are inside.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/costs/estimate.hpp"
#include "model/text/document.hpp"
#include "model/text/reader.hpp"
#include "planner/candidate/candidate.hpp"
#include "planner/evaluation/prediction.hpp"
#include "planner/plan/tutel_dictionary.hpp"

namespace moeplan::planner {

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

struct Plan {
  PlanInputs inputs;
  std::int64_t world_size = 0;
  Candidate candidate;
  SimTime makespan;
  Estimate estimate;
  Seconds global_bound;  // over every feasible candidate of the search
  std::vector<TutelDictionary> tutel = {};

  /// How much longer than the bound of its own Program; than the least bound of the search. 0.1 is 10%.
  [[nodiscard]] double schedule_gap() const { return makespan.seconds() / estimate.lower_bound - 1; }
  [[nodiscard]] double optimality_gap() const { return makespan.seconds() / global_bound - 1; }
};

/// YAML, deterministic. Raises InputError where the file cannot be written or read.
void write_plan(const Plan& plan, const std::filesystem::path& path);
[[nodiscard]] Plan read_plan(const std::filesystem::path& path);

/// A candidate as plan files say it: every decision under its key, strictly read.
[[nodiscard]] Node decision_document(const Candidate& candidate);
[[nodiscard]] Candidate read_decision(MapReader decision);

inline constexpr std::int64_t kPlanSchemaVersion = 1;

}  // namespace moeplan::planner
