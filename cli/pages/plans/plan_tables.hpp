// The tables of the page of `plan`: pipeline stages, strategies of the MoE layers, candidates. Each begins with an
// empty line; "" where there is nothing to show.
#pragma once

#include <string>

#include "cli/pages/plans/plan_report.hpp"

namespace moeplan::cli {

/// What each stage of the best plan holds, and the time and memory of its binding rank; equal stages in one row. ""
/// without a pipeline.
[[nodiscard]] std::string stage_table(const PlanReport& report);

/// How the MoE layers run: one row for those of each strategy.
[[nodiscard]] std::string strategy_table(const PlanReport& report);

/// The best plan and its runners-up, with the reason why each is slower.
[[nodiscard]] std::string candidate_table(const PlanReport& report);

/// The decisions of `candidate` about its MoE layers, and others in which it differs from `best`.
[[nodiscard]] std::string what_is_new(const planner::Candidate& candidate, const planner::Candidate& best);

/// [Tutel]'s dictionary of the best plan's strategies by capacity.
[[nodiscard]] std::string tutel_table(const planner::TutelDictionary& dictionary);

}  // namespace moeplan::cli
