// The report of `compare` about two plans.
#pragma once

#include <string>

#include "cli/pages/plans/prepared_plan.hpp"
#include "planner/report/plan_difference.hpp"

namespace moeplan::cli {

struct ComparedPlan {
  std::string name;  // of the file
  const PreparedPlan& plan;
  const planner::Prediction& prediction;
};

struct Comparison {
  ComparedPlan a;
  ComparedPlan b;
  planner::PlanDifference difference;
};

/// The conclusion: one sentence on how much longer or shorter the second plan takes, and on which operation classes. A
/// second sentence follows if the plans' work differs (model, batch, sequence length or mode).
[[nodiscard]] std::string conclusion(const Comparison& comparison);

[[nodiscard]] std::string compare_page(const Comparison& comparison);
[[nodiscard]] std::string compare_json(const Comparison& comparison, double wall_s);

}  // namespace moeplan::cli
