// Codes of CUDA's libraries as errors.
#pragma once

#include <source_location>
#include <string>

#include "model/base/ids.hpp"

namespace moeplan::runtime {

/// "rank 3: cudaMalloc of 4096 bytes: cudaErrorMemoryAllocation: out of memory (cuda_device.cpp:40)"
[[noreturn]] void raise_cuda_error(RankId rank, const std::string& call, const std::string& error,
                                   const std::source_location& where);

/// Of the runtime (cudaError_t): raises ExecutionError unless it is 0.
void check_cuda(int code, RankId rank, const char* call,
                const std::source_location& where = std::source_location::current());
/// Of cuBLASLt (cublasStatus_t).
void check_cublas(int code, RankId rank, const char* call,
                  const std::source_location& where = std::source_location::current());

}  // namespace moeplan::runtime
