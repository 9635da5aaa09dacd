// A plan with the inputs and the cluster needed to simulate it.
#pragma once

#include <string>
#include <vector>

#include "planner/plan/inputs.hpp"
#include "planner/plan/plan.hpp"

namespace moeplan::cli {

struct PreparedPlan {
  planner::Plan plan;
  planner::Inputs inputs;
  Cluster cluster;

  [[nodiscard]] planner::Problem problem() const { return {inputs.model, inputs.workload, cluster}; }
};

/// Applies `-C` overrides, builds the cluster and checks that the plan can be lowered. `file` is used in messages.
/// Raises InputError.
[[nodiscard]] PreparedPlan prepare_plan(planner::Plan plan, const std::string& file,
                                        const std::vector<std::string>& overrides);

/// Reads the plan from the file and prepares it. Raises InputError.
[[nodiscard]] PreparedPlan load_plan(const std::string& file, const std::vector<std::string>& overrides);

[[nodiscard]] inline planner::Prediction predict(const PreparedPlan& p) {
  return predict(p.problem(), p.plan.candidate);
}

}  // namespace moeplan::cli
