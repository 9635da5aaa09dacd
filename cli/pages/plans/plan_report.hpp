// The reports of `plan` and `simulate`: a page for readers and a JSON document for programs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/plan/inputs.hpp"
#include "planner/plan/plan.hpp"
#include "planner/report/plan_difference.hpp"
#include "planner/search/search.hpp"
#include "planner/size/would_fit.hpp"

namespace moeplan::cli {

/// The contents of a report of `plan`. predictions[i] belongs to result.ranked[i].
struct PlanReport {
  const planner::Inputs& inputs;
  const planner::PlanInputs& documents;
  const Cluster& cluster;
  const planner::SearchResult& result;
  const std::vector<planner::Prediction>& predictions;
  const std::vector<planner::TutelDictionary>& tutel;
  const planner::Framework* framework;              // null: any
  const std::optional<planner::Evaluated>& beyond;  // faster on the same degrees, but not in the framework
  const std::vector<MemoryUse>& stage_memory;       // of the best plan, by pipeline stage
  bool has_default_batch;                           // PlanJob
  double wall_s;
  int threads;
};

/// Five lines of answer, then the tables; with `is_verbose` also plan_details().
[[nodiscard]] std::string plan_page(const PlanReport& report, bool is_verbose);
[[nodiscard]] std::string plan_json(const PlanReport& report);

/// The reports if no plan is feasible: the reasons with their counts, what the nearest candidate lacks, and what would
/// fit (none: not known).
[[nodiscard]] std::string infeasible_page(const planner::Inputs& inputs, const Cluster& cluster,
                                          const planner::SearchResult& result,
                                          const std::optional<planner::WouldFit>& would_fit);
[[nodiscard]] std::string infeasible_json(const planner::Inputs& inputs, const Cluster& cluster,
                                          const planner::SearchResult& result,
                                          const std::optional<planner::WouldFit>& would_fit);

[[nodiscard]] std::string simulate_page(const planner::Plan& plan, const planner::Inputs& inputs,
                                        const Cluster& cluster, const planner::Prediction& prediction);
[[nodiscard]] std::string simulate_json(const planner::Plan& plan, const planner::Inputs& inputs,
                                        const Cluster& cluster, const planner::Prediction& prediction, double wall_s);

}  // namespace moeplan::cli
