// The environment variables that CUDA and NCCL read when they start.
#pragma once

namespace moeplan::runtime {

/// Sets those that are not set, for this process and those that it starts. To be called before any call of CUDA.
void prepare_cuda_environment();

}  // namespace moeplan::runtime
