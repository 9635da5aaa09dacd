// What the page of `plan` shows with --verbose: proofs, times by class, counts of the search, origins of numbers.
#pragma once

#include <string>

#include "cli/pages/plans/plan_report.hpp"

namespace moeplan::cli {

[[nodiscard]] std::string plan_details(const PlanReport& report);

/// The numbers of infeasible candidates by reason, one line each, in descending order.
[[nodiscard]] std::string rejections(const planner::SearchResult& result);

}  // namespace moeplan::cli
