// The plan of a job that someone else made: a row of a table of runs, with its model, as a plan file.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "planner/evaluation/problem.hpp"
#include "planner/plan/plan.hpp"
#include "planner/runs/run_plan.hpp"

namespace moeplan::runs {

struct ImportedPlan {
  planner::Plan plan;
  std::vector<std::string> defaults = {};        // what was taken for what the job does not say
  std::vector<std::string> approximations = {};  // what is expressed roughly
  std::optional<Seconds> measured = {};          // of an iteration
  std::optional<std::string> misfit = {};        // "needs 90.1 GiB of 74.5", if it does not fit in memory
};

/// The plan of a row, simulated; its bound is that of its own Program, since nothing else was searched. What the row
/// leaves to the planner is searched shortly. A plan that does not fit in memory is a plan nevertheless. Raises
/// InputError.
[[nodiscard]] std::variant<ImportedPlan, Refusal> imported_plan(const profiler::RunRow& row, const ModelSpec& model);

/// The plan of a candidate that is complete, simulated: what imported_plan() ends with. It may not fit in memory.
[[nodiscard]] std::variant<ImportedPlan, Refusal> planned(const planner::Problem& problem,
                                                          const planner::Candidate& candidate,
                                                          planner::PlanInputs documents);

}  // namespace moeplan::runs
