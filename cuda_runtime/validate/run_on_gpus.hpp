// Jobs on GPUs: moeplan-cuda-worker, which starts ranks itself, or is one of those that torchrun, srun or mpirun
// started.
#pragma once

#include <cstdint>

#include "cuda_runtime/validate/run_cases.hpp"

namespace moeplan::validate {

/// Executes a job; `ranks_per_gpu`: that may share one where there are fewer GPUs than ranks. Raises InputError where
/// the worker was not built. Without a GPU, ranks fail and say so.
[[nodiscard]] JobRun run_on_gpus(const ExecuteJob& job, std::int64_t ranks_per_gpu, bool quiet);

}  // namespace moeplan::validate
