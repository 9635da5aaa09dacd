// A plan: every decision, and the prediction for it. It is self-contained: the resolved cluster, model and workload are
// part of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/costs/estimate.hpp"
#include "model/text/document.hpp"
#include "model/text/reader.hpp"
#include "planner/candidate/candidate.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/plan/tutel_dictionary.hpp"

namespace moeplan::planner {

/// The three inputs as resolved documents: includes merged, the GPU embedded, overrides applied, Hugging Face
/// configurations converted.
struct PlanInputs {
  Node cluster;
  Node model;
  Node workload;
  std::string cluster_source;  // the origin of each document, for later comparison
  std::string model_source;
  std::string workload_source;
  std::vector<std::string> overrides;  // "cluster.gpu.memory=40 GB"
};

/// The inputs, decisions and predicted times of one plan.
struct Plan {
  PlanInputs inputs;
  std::int64_t world_size = 0;
  Candidate candidate;
  SimTime makespan;
  Estimate estimate;
  Seconds global_bound;  // lower bound over every feasible candidate of the search
  std::vector<TutelDictionary> tutel = {};

  /// The makespan's excess over the lower bound of the plan's own Program, and over that of the whole search. 0.1 means
  /// 10%.
  [[nodiscard]] double schedule_gap() const { return makespan.seconds() / estimate.lower_bound - 1; }
  [[nodiscard]] double optimality_gap() const { return makespan.seconds() / global_bound - 1; }
};

/// Plan files: YAML with deterministic bytes. Raises InputError if the file cannot be written or read.
void write_plan(const Plan& plan, const std::filesystem::path& path);
[[nodiscard]] Plan read_plan(const std::filesystem::path& path);

/// A candidate as a plan file stores it: every decision under its key, read strictly.
[[nodiscard]] Node decision_document(const Candidate& candidate);
[[nodiscard]] Candidate read_decision(MapReader decision);

inline constexpr std::int64_t kPlanSchemaVersion = 1;

}  // namespace moeplan::planner
