// The launch of a kernel of kernels/: one block of threads per item, one thread per lane.
#pragma once

#include <cuda_runtime.h>

#include "cuda_runtime/kernels/kernel_call.hpp"

namespace moeplan::runtime {

using kernels::Best;

constexpr int kWarp = 32;
constexpr int kMostThreads = 256;

struct Add {
  MOEPLAN_BOTH Best operator()(const Best& a, const Best& b) const { return {a.value + b.value, 0}; }
};
struct Least {
  MOEPLAN_BOTH Best operator()(const Best& a, const Best& b) const { return {fminf(a.value, b.value), 0}; }
};
struct Most {
  MOEPLAN_BOTH Best operator()(const Best& a, const Best& b) const { return {fmaxf(a.value, b.value), 0}; }
};
struct Better {
  MOEPLAN_BOTH Best operator()(const Best& a, const Best& b) const { return is_better(b, a) ? b : a; }
};

/// The team of all threads of a block, in whole warps.
struct BlockTeam {
  int lane;
  int size;
  // In shared memory:
  Best* of_warps;
  char* scratch;

  MOEPLAN_BOTH float sum(float v) { return fold({v, 0}, Add()).value; }
  MOEPLAN_BOTH float least(float v) { return fold({v, 0}, Least()).value; }
  MOEPLAN_BOTH float most(float v) { return fold({v, 0}, Most()).value; }
  MOEPLAN_BOTH Best best(const Best& v) { return fold(v, Better()); }
  MOEPLAN_BOTH void sync() {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }

  template <class F>
  MOEPLAN_BOTH Best fold(Best v, F f) {
#if defined(__CUDA_ARCH__)
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      const Best other{__shfl_xor_sync(0xffffffffU, v.value, distance),
                       __shfl_xor_sync(0xffffffffU, v.index, distance)};
      v = f(v, other);
    }
    if (size > kWarp) {
      if (lane % kWarp == 0) of_warps[lane / kWarp] = v;
      __syncthreads();
      v = of_warps[0];
      for (int w = 1; w < size / kWarp; ++w) v = f(v, of_warps[w]);
      __syncthreads();  // before of_warps is written again
    }
#else
    (void)f;
#endif
    return v;
  }
};

/// Blocks of a kernel that a multiprocessor holds at least; the compiler then limits registers to 48 for 5. assumed: for
/// kernels that it gives more, and that need no spills for it, more rows in flight are worth more.
template <class Kernel>
constexpr int kLeastBlocks = 0;  // no limit
template <>
constexpr int kLeastBlocks<kernels::ActivationBackward> = 5;
template <>
constexpr int kLeastBlocks<kernels::DecodeBackward> = 5;

template <class Kernel>
__global__ __launch_bounds__(kMostThreads, kLeastBlocks<Kernel>) void run_items(const Kernel kernel) {
  __shared__ Best of_warps[kMostThreads / kWarp];
  __shared__ __align__(16) char scratch[kernels::kScratchBytes];
  BlockTeam team{static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), of_warps, scratch};
  for (std::int64_t item = blockIdx.x; item < kernel.items; item += gridDim.x) kernel.run(item, team);
}

template <class Kernel>
[[nodiscard]] int launch_items(const Kernel& kernel, cudaStream_t stream) {
  if (kernel.items <= 0) return 0;
  constexpr std::int64_t kElements = 8;  // per thread and access
  const std::int64_t wanted = (kernel.width() + kElements * kWarp - 1) / (kElements * kWarp) * kWarp;
  const std::int64_t threads = wanted < kWarp ? kWarp : wanted > kMostThreads ? kMostThreads : wanted;
  const std::int64_t blocks = kernel.items < INT32_MAX ? kernel.items : INT32_MAX;
  run_items<<<static_cast<unsigned>(blocks), static_cast<unsigned>(threads), 0, stream>>>(kernel);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace moeplan::runtime
