// The execution of many cases by ranks that are started as rarely as possible: once, and once more after each failure.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "cuda_runtime/validate/case_log.hpp"
#include "cuda_runtime/validate/run_cases.hpp"

namespace moeplan::validate {

/// Starts ranks that execute these cases, and calls `on_case` for each that is finished.
using Launcher = std::function<JobRun(const std::vector<planner::LayerCase>& cases, const OnCase& on_case)>;

/// Called with each case that is finished or has failed (ExecutionResult::failed), in order.
using OnResult = std::function<void(const planner::LayerCase& layer, const Answer& answer)>;

/// Executes the cases. A case during which ranks end fails, and the ranks are started again for the remaining ones.
/// Ends early if that happens twice without a finished case in between, for which no case is to blame; if it is
/// interrupted; and after a failure of ranks that srun or mpirun has started, which are not started again.
[[nodiscard]] JobRun run_all(std::vector<planner::LayerCase> cases, bool can_start_again, const Launcher& launch,
                             const OnResult& on_result);

}  // namespace moeplan::validate
