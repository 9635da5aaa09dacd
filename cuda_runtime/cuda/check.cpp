#include "cuda_runtime/cuda/check.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string_view>

#include "cuda_runtime/backend.hpp"

namespace moeplan::runtime {

void raise_cuda_error(RankId rank, const std::string& call, const std::string& error,
                      const std::source_location& where) {
  const std::string_view file = where.file_name();
  throw ExecutionError(fmt::format("rank {}: {}: {} ({}:{})", rank.value(), call, error,
                                   file.substr(file.rfind('/') + 1), where.line()));
}

void check_cuda(int code, RankId rank, const char* call, const std::source_location& where) {
  if (code == cudaSuccess) return;
  const auto error = static_cast<cudaError_t>(code);
  raise_cuda_error(rank, call, fmt::format("{}: {}", cudaGetErrorName(error), cudaGetErrorString(error)), where);
}

void check_cublas(int code, RankId rank, const char* call, const std::source_location& where) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  raise_cuda_error(rank, call, cublasLtGetStatusName(static_cast<cublasStatus_t>(code)), where);
}

}  // namespace moeplan::runtime
