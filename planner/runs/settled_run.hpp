// What a run's plan becomes on its cluster: the GPUs that it uses of each node, its exchange, its recomputation.
#pragma once

#include "planner/runs/run_plan.hpp"

namespace moeplan::runs {

/// The cluster of a run, and a note in its defaults if it does not use all GPUs of each NVLink domain. Raises
/// InputError.
[[nodiscard]] Cluster cluster_of(RunPlan& plan);

/// Settles the all-to-all (rows are deduplicated between nodes only) and, for a run that was timed and whose
/// recomputation is not known, the least recomputation that fits; with notes in the plan.
void settle(RunPlan& plan, const profiler::RunRow& row, const Cluster& cluster);

/// The space of a run that leaves decisions to the planner, with limits as low as is sensible for few decisions.
[[nodiscard]] planner::SearchSpace short_search(planner::SearchSpace space);

}  // namespace moeplan::runs
