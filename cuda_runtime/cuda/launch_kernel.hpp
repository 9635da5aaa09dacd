// Kernels on a GPU. Everything of nvcc's stands in kernels.cu.
#pragma once

#include "cuda_runtime/kernels/kernel_call.hpp"

struct CUstream_st;

namespace moeplan::runtime {

/// Starts it; the runtime's error code, 0: none.
[[nodiscard]] int launch_kernel(const kernels::KernelCall& call, CUstream_st* stream);

}  // namespace moeplan::runtime
