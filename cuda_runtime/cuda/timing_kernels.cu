// Kernels that compute nothing: they set the conditions under which others are timed.
#include <cuda_runtime.h>

#include "cuda_runtime/cuda/launch_kernel.hpp"

namespace moeplan::runtime {

namespace {

__device__ std::uint64_t nanoseconds() {
  std::uint64_t out;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(out));
  return out;
}

/// One thread. Numbers only grow, so that a late look still sees that its hold was resumed.
__global__ void hold(volatile HoldWords* words, std::uint32_t number, std::uint64_t limit) {
  const std::uint64_t begin = nanoseconds();
  while (words->resumed < number) {
    if (nanoseconds() - begin < limit) {
      __nanosleep(200);
      continue;
    }
    words->expired = number;
    __threadfence_system();
    return;
  }
}

__device__ unsigned sink;

__global__ void read_all(const uint4* data, std::size_t count) {
  unsigned all = 0;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < count;
       i += std::size_t{gridDim.x} * blockDim.x) {
    const uint4 v = data[i];
    all ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (all == 0x5eed5eedU) sink = all;  // so that the reads are not optimised away
}

}  // namespace

int launch_hold(HoldWords* words, std::uint32_t number, std::uint64_t limit_ns, CUstream_st* stream) {
  hold<<<1, 1, 0, stream>>>(words, number, limit_ns);
  return static_cast<int>(cudaGetLastError());
}

int launch_read(const void* data, std::size_t bytes, CUstream_st* stream) {
  constexpr int kThreads = 256, kBlocks = 2048;  // several blocks for each multiprocessor of any GPU
  read_all<<<kBlocks, kThreads, 0, stream>>>(static_cast<const uint4*>(data), bytes / sizeof(uint4));
  return static_cast<int>(cudaGetLastError());
}

}  // namespace moeplan::runtime
