// What `plan` and `simulate` print: a page for people, a JSON document for programs.
#pragma once

#include <string>
#include <vector>

#include "cli/inputs.hpp"
#include "planner/plan.hpp"
#include "planner/plan_difference.hpp"
#include "planner/search.hpp"

namespace moeplan {

/// Everything that a report of `plan` is about. predictions[i] belongs to result.ranked[i].
struct PlanReport {
  const Inputs& inputs;
  const PlanInputs& documents;
  const Cluster& cluster;
  const SearchResult& result;
  const std::vector<Prediction>& predictions;
  const std::vector<TutelDictionary>& tutel;
  double wall_s;
};

[[nodiscard]] std::string plan_page(const PlanReport& report);
[[nodiscard]] std::string plan_json(const PlanReport& report);

/// Nothing is feasible: the counted reasons, and what the candidate that came nearest lacks.
[[nodiscard]] std::string infeasible_page(const Inputs& inputs, const Cluster& cluster, const SearchResult& result);
[[nodiscard]] std::string infeasible_json(const Inputs& inputs, const Cluster& cluster, const SearchResult& result);

[[nodiscard]] std::string simulate_page(const Plan& plan, const Inputs& inputs, const Cluster& cluster,
                                        const Prediction& prediction);
[[nodiscard]] std::string simulate_json(const Plan& plan, const Inputs& inputs, const Cluster& cluster,
                                        const Prediction& prediction, double wall_s);

}  // namespace moeplan
