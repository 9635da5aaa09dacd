// The execution of jobs on GPUs by moeplan-cuda-worker, which starts ranks itself or is itself a rank started by
// torchrun, srun or mpirun.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "cuda_runtime/validate/run_cases.hpp"

namespace moeplan::validate {

/// Executes a job. `ranks_per_gpu`: how many ranks may share a GPU if there are fewer GPUs than ranks. Raises
/// InputError if the worker is not installed. Without a GPU the ranks fail with an error.
[[nodiscard]] JobRun run_on_gpus(const ExecuteJob& job, std::int64_t ranks_per_gpu, bool quiet,
                                 const OnCase& on_case = {});

}  // namespace moeplan::validate
