// Executing a job's cases as one of its ranks, on any back end: values first, then times.
#pragma once

#include <functional>
#include <memory>

#include "cli/validate/job.hpp"
#include "cuda_runtime/backend.hpp"

namespace moeplan {

/// A new back end for a case.
using BackendMaker = std::function<std::unique_ptr<Backend>(const LayerCase& layer)>;

/// All ranks call it; the results are on rank 0, on the others empty. Raises ExecutionError.
[[nodiscard]] std::vector<ExecutionResult> execute(const ExecuteJob& job, Peers& peers,
                                                   const BackendMaker& make_backend);

}  // namespace moeplan
