// What `compare` prints about two plans.
#pragma once

#include <string>

#include "cli/prepared_plan.hpp"
#include "planner/plan_difference.hpp"

namespace moeplan {

struct ComparedPlan {
  std::string name;  // of the file
  const PreparedPlan& plan;
  const Prediction& prediction;
};

struct Comparison {
  ComparedPlan a;
  ComparedPlan b;
  PlanDifference difference;
};

/// One sentence: how much longer or shorter the second takes, and on what; and one more where the two do not do the
/// same work (another model, batch, sequence length or mode).
[[nodiscard]] std::string conclusion(const Comparison& comparison);

[[nodiscard]] std::string compare_page(const Comparison& comparison);
[[nodiscard]] std::string compare_json(const Comparison& comparison, double wall_s);

}  // namespace moeplan
