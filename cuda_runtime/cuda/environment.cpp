#include "cuda_runtime/cuda/environment.hpp"

#include <cstdlib>

namespace moeplan::runtime {

void prepare_cuda_environment() {
  // Hardware queues. With CUDA's default of 8, streams that share one wait for each other's events; 32 is the most.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  // NCCL (from 2.26 on): two communicators in flight execute in the order in which the host called them, on all ranks.
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
}

}  // namespace moeplan::runtime
