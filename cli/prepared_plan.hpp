// From a plan file to everything that is needed to simulate it.
#pragma once

#include <string>
#include <vector>

#include "cli/inputs.hpp"
#include "planner/plan.hpp"

namespace moeplan {

struct PreparedPlan {
  Plan plan;
  Inputs inputs;
  Cluster cluster;
};

/// Applies `-C` overrides, builds the cluster and checks that the plan can be lowered. `file` is named in messages.
/// Raises InputError.
[[nodiscard]] PreparedPlan prepare_plan(Plan plan, const std::string& file, const std::vector<std::string>& overrides);

/// The same from the file. Raises InputError.
[[nodiscard]] PreparedPlan load_plan(const std::string& file, const std::vector<std::string>& overrides);

[[nodiscard]] inline Prediction predict(const PreparedPlan& p) {
  return predict(p.inputs.model, p.inputs.workload, p.cluster, p.plan.candidate);
}

}  // namespace moeplan
