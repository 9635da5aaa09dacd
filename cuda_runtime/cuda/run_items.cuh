// The launch of a kernel of kernels/: one block of threads, or one warp, per item, one thread per lane.
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

/// The reductions of a team, by its fold().
template <class Team>
struct Reductions {
  MOEPLAN_BOTH float sum(float v) { return team().fold({v, 0}, Add()).value; }
  MOEPLAN_BOTH float least(float v) { return team().fold({v, 0}, Least()).value; }
  MOEPLAN_BOTH float most(float v) { return team().fold({v, 0}, Most()).value; }
  MOEPLAN_BOTH Best best(const Best& v) { return team().fold(v, Better()); }

 private:
  MOEPLAN_BOTH Team& team() { return static_cast<Team&>(*this); }
};

/// The team of a warp.
struct WarpTeam : Reductions<WarpTeam> {
  int lane;
  int size;
  char* scratch;  // in shared memory

  MOEPLAN_BOTH void sync() {
#if defined(__CUDA_ARCH__)
    __syncwarp();
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
#else
    (void)f;
#endif
    return v;
  }
};

/// The team of all threads of a block, in whole warps.
struct BlockTeam : Reductions<BlockTeam> {
  int lane;
  int size;
  char* scratch;  // in shared memory, as is:
  Best* of_warps;

  MOEPLAN_BOTH void sync() {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }

  template <class F>
  MOEPLAN_BOTH Best fold(Best v, F f) {
    v = WarpTeam{{}, lane, kWarp, scratch}.fold(v, f);
#if defined(__CUDA_ARCH__)
    if (size > kWarp) {
      if (lane % kWarp == 0) of_warps[lane / kWarp] = v;
      __syncthreads();
      v = of_warps[0];
      for (int w = 1; w < size / kWarp; ++w) v = f(v, of_warps[w]);
      __syncthreads();  // before of_warps is written again
    }
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
template <>
constexpr int kLeastBlocks<kernels::NormRows> = 4;
template <>
constexpr int kLeastBlocks<kernels::NormRowsBackward> = 3;
template <>
constexpr int kLeastBlocks<kernels::Int8Codec> = 4;
template <>
constexpr int kLeastBlocks<kernels::Fp8BlockCodec> = 4;

/// An item per block.
template <class Kernel>
__global__ __launch_bounds__(kMostThreads, kLeastBlocks<Kernel>) void run_items(const Kernel kernel) {
  __shared__ Best of_warps[kMostThreads / kWarp];
  __shared__ __align__(16) char scratch[kernels::kScratchBytes];
  BlockTeam team{{}, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), scratch, of_warps};
  for (std::int64_t item = blockIdx.x; item < kernel.items; item += gridDim.x) kernel.run(item, team);
}

/// An item per warp.
template <class Kernel>
__global__ __launch_bounds__(kMostThreads, kLeastBlocks<Kernel>) void run_items_by_warp(const Kernel kernel) {
  constexpr int kWarps = kMostThreads / kWarp;
  __shared__ __align__(16) char scratch[kWarps][kernels::kScratchBytes];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  WarpTeam team{{}, static_cast<int>(threadIdx.x) % kWarp, kWarp, scratch[warp]};
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kWarps;
  for (std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * kWarps + warp; item < kernel.items; item += step) {
    kernel.run(item, team);
  }
}

constexpr std::int64_t kElementsOfChunk = 8;

/// Chunks per lane: as many as it holds, where kernels pass over rows again.
template <class Kernel>
constexpr std::int64_t kChunksOfLane = 1;
constexpr std::int64_t kHeld = kernels::kHeldChunks<kernels::KnownFormat<kernels::Format::Bf16>>;
template <>
constexpr std::int64_t kChunksOfLane<kernels::NormRows> = kHeld;
template <>
constexpr std::int64_t kChunksOfLane<kernels::NormRowsBackward> = kHeld;
template <>
constexpr std::int64_t kChunksOfLane<kernels::Int8Codec> = kHeld;
template <>
constexpr std::int64_t kChunksOfLane<kernels::Fp8BlockCodec> = kHeld;

/// The elements that a warp takes with these chunks.
template <class Kernel>
constexpr std::int64_t kOfWarp = kElementsOfChunk * kWarp * kChunksOfLane<Kernel>;

/// The elements up to which an item, of many, gets a warp, not a block: more items are then under way. Measured on an
/// H200, with 768, 4096 and 7168 columns. For wider rows that pays where items read one thing to find the next, or wait
/// for all lanes.
template <class Kernel>
constexpr std::int64_t kMostOfWarp = kOfWarp<Kernel>;
template <>
constexpr std::int64_t kMostOfWarp<kernels::SumRows> = INT64_MAX;
template <>
constexpr std::int64_t kMostOfWarp<kernels::DecodeBackward> = INT64_MAX;
template <>
constexpr std::int64_t kMostOfWarp<kernels::TopK> = 8192;
template <>
constexpr std::int64_t kMostOfWarp<kernels::TopKBackward> = 8192;

template <class Kernel>
[[nodiscard]] int launch_items(const Kernel& kernel, cudaStream_t stream) {
  if (kernel.items <= 0) return 0;
  constexpr std::int64_t kMany = 1 << 12;  // items that give all multiprocessors enough warps
  const auto blocks = [&](std::int64_t each) {
    const std::int64_t wanted = (kernel.items + each - 1) / each;
    return static_cast<unsigned>(wanted < INT32_MAX ? wanted : INT32_MAX);
  };
  if (kernel.items >= kMany && kernel.width() <= kMostOfWarp<Kernel>) {
    run_items_by_warp<<<blocks(kMostThreads / kWarp), kMostThreads, 0, stream>>>(kernel);
    return static_cast<int>(cudaGetLastError());
  }
  const std::int64_t wanted = (kernel.width() + kOfWarp<Kernel> - 1) / kOfWarp<Kernel> * kWarp;
  const std::int64_t threads = wanted < kWarp ? kWarp : wanted > kMostThreads ? kMostThreads : wanted;
  run_items<<<blocks(1), static_cast<unsigned>(threads), 0, stream>>>(kernel);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace moeplan::runtime
