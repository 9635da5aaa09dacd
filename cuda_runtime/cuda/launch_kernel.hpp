// Kernel launches on a GPU. All code that needs nvcc is in kernels.cu.
#pragma once

#include "cuda_runtime/kernels/kernel_call.hpp"

struct CUstream_st;

namespace moeplan::runtime {

/// Launches a kernel. Returns the CUDA runtime's error code, 0 on success.
[[nodiscard]] int launch_kernel(const kernels::KernelCall& call, CUstream_st* stream);

}  // namespace moeplan::runtime
