// Conversion of the error codes of CUDA's libraries to exceptions.
#pragma once

#include <source_location>
#include <string>

#include "model/base/ids.hpp"

namespace moeplan::runtime {

/// Raises ExecutionError, with a text like "rank 3: cudaMalloc of 4096 bytes: cudaErrorMemoryAllocation: out of memory
/// (cuda_device.cpp:40)".
[[noreturn]] void raise_cuda_error(RankId rank, const std::string& call, const std::string& error,
                                   const std::source_location& where);

/// Raises ExecutionError unless the code of the CUDA runtime (cudaError_t) is 0.
void check_cuda(int code, RankId rank, const char* call,
                const std::source_location& where = std::source_location::current());
/// Raises ExecutionError unless the code of cuBLASLt (cublasStatus_t) is 0.
void check_cublas(int code, RankId rank, const char* call,
                  const std::source_location& where = std::source_location::current());

}  // namespace moeplan::runtime
