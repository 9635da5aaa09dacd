// Grouped products for Hopper. A tile of C is computed by two warpgroups (wgmma); a warp of a third one loads the
// operands of the next steps along k by the tensor memory accelerator (TMA), through a ring of stages in shared memory.
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <type_traits>

#include "cuda_runtime/cuda/hopper/hopper_instructions.cuh"
#include "cuda_runtime/cuda/hopper/hopper_products.hpp"
#include "cuda_runtime/kernels/result_tiles.hpp"

namespace moeplan::runtime {

namespace {

using namespace hopper;
using kernels::tiles_along;

constexpr int kColumns = 256;  // of a tile
constexpr int kDepth = 64;     // along k, of a stage: 128 bytes, the width of the swizzle
constexpr int kThreads = 384;
constexpr int kConsumers = 2;      // warpgroups
constexpr int kMostProducts = 64;  // of a launch: its arguments have room for them
/// Steps along k of a block with several tiles, some 40 us: kernels of urgent streams wait for a multiprocessor until a
/// block ends. Measured on an H200 (docs/cuda.md): with 128 steps layers whose messages overlap products are 4 to 6%
/// slower, with a tile a block sums of few rows up to 25%.
constexpr int kStepsOfBlock = 48;

/// Stages of a tile with this many rows: what shared memory has room for.
template <int rows>
constexpr int kStages = rows == 128 ? 4 : 5;
template <int rows>
constexpr int kStageBytes = (rows + kColumns) * kDepth* kElement;
/// With room to align the stages, and for barriers.
template <int rows>
constexpr int kSharedBytes = kStages<rows>* kStageBytes<rows> + 1024 + 256;

/// A product, with how TMA finds its operands.
struct Product {
  CUtensorMap a, b;
  void* c;
  std::int32_t m, n, k;
  std::int32_t first_tile;
  bool accumulates;
};
struct Arguments {
  Product products[kMostProducts];
  int count;
  kernels::TileRounds rounds;
};

/// A position in the ring of stages, and the parity of its barriers in this round.
template <int stages>
struct Position {
  int stage = 0;
  std::uint32_t parity = 0;

  __device__ void advance() {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1U;
  }
};

/// The tiles of a block, in order.
template <int rows>
class Tiles {
 public:
  __device__ explicit Tiles(const Arguments& all)
      : all_(all),
        next_(all.rounds.first(static_cast<int>(blockIdx.x))),
        end_(all.rounds.end(static_cast<int>(blockIdx.x))) {}

  const Product* product = nullptr;
  int row = 0, column = 0;  // of the tile's first element

  /// Whether there is another tile, of which it sets the members above.
  __device__ bool next() {
    if (next_ >= end_) return false;
    while (index_ + 1 < all_.count && all_.products[index_ + 1].first_tile <= next_) ++index_;
    product = &all_.products[index_];
    const kernels::TilePlace place = kernels::tile_place(next_ - product->first_tile, tiles_along(product->m, rows),
                                                         tiles_along(product->n, kColumns));
    row = place.row * rows;
    column = place.column * kColumns;
    next_ += all_.rounds.blocks;
    return true;
  }

 private:
  const Arguments& all_;
  int next_, end_, index_ = 0;
};

/// Asks for what a tile's results are added to, to be in L2 once they are there: a row at a time by each lane.
template <int rows, int element>
__device__ void prefetch_results(const Product& p, int row, int column, int lane) {
  const int left = p.n - column, bytes = (left < kColumns ? left : kColumns) * element;
  for (int r = row + lane; r < row + rows && r < p.m; r += 32) {
    const char* const from = static_cast<const char*>(p.c) + (static_cast<std::int64_t>(r) * p.n + column) * element;
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
  }
}

/// Loads the operands of all tiles, by a warp.
template <int rows, bool is_a_strided, bool is_b_strided, int result>
__device__ void load_tiles(const Arguments& all, char* ring, std::uint64_t* full, std::uint64_t* empty) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  Position<kStages<rows>> at;
  Tiles<rows> tiles(all);
  while (tiles.next()) {
    const Product& p = *tiles.product;
    if (p.accumulates) prefetch_results<rows, result>(p, tiles.row, tiles.column, lane);
    if (lane == 0) {
      for (int k = 0; k < p.k; k += kDepth) {
        wait(empty + at.stage, at.parity ^ 1U);
        char* const stage = ring + at.stage * kStageBytes<rows>;
        expect_bytes(full + at.stage, kStageBytes<rows>);
        load_operand<is_a_strided, rows>(stage, &p.a, tiles.row, k, full + at.stage);
        load_operand<is_b_strided, kColumns>(stage + rows * kDepth * kElement, &p.b, tiles.column, k, full + at.stage);
        at.advance();
      }
    }
    __syncwarp();
  }
}

__device__ float value_of(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ float value_of(__half x) { return __half2float(x); }

template <bool is_fp16>
__device__ std::uint32_t rounded(float first, float second) {
  if constexpr (is_fp16) {
    const __half2 pair = __floats2half2_rn(first, second);
    return reinterpret_cast<const std::uint32_t&>(pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return reinterpret_cast<const std::uint32_t&>(pair);
  }
}

/// Of four lanes that have four words each, lane i gets every lane's word i.
__device__ void transpose(std::uint32_t (&words)[4], int lane) {
  const bool is_odd = (lane & 1) != 0, is_high = (lane & 2) != 0;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const std::uint32_t got = __shfl_xor_sync(0xFFFFFFFFU, is_odd ? words[i] : words[i + 1], 1);
    (is_odd ? words[i] : words[i + 1]) = got;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t got = __shfl_xor_sync(0xFFFFFFFFU, is_high ? words[i] : words[i + 2], 2);
    (is_high ? words[i] : words[i + 2]) = got;
  }
}

// Results of a warpgroup: a thread has, of rows 16 x warp + lane / 4 and 8 below, two of every eight columns.

/// Lanes exchange pairs with their neighbours, and write four columns of every second group of eight.
template <int count>
__device__ void store_fp32(const Product& p, int first_row, int first_column, const float (&d)[count]) {
  constexpr int kInFlight = 8;  // reads of a thread
  const int thread = static_cast<int>(threadIdx.x) % 128, is_odd = thread % 2;
  const int column = first_column + 8 * is_odd + thread % 4 / 2 * 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + thread / 32 * 16 + thread % 32 / 4 + 8 * half;
    const int columns = row < p.m ? p.n - column : 0;
    float4* const to =
        reinterpret_cast<float4*>(static_cast<float*>(p.c) + static_cast<std::int64_t>(row) * p.n + column);
#pragma unroll
    for (int i = 0; i < count / 8; i += kInFlight) {
      float4 before[kInFlight];
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        before[j] = p.accumulates && 16 * (i + j) < columns ? to[4 * (i + j)] : float4{};
      }
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        const float* const even = d + 8 * (i + j) + 2 * half;
        const float* const odd = even + 4;
        const float x = __shfl_xor_sync(0xFFFFFFFFU, is_odd ? even[0] : odd[0], 1);
        const float y = __shfl_xor_sync(0xFFFFFFFFU, is_odd ? even[1] : odd[1], 1);
        const float4 own = is_odd ? float4{x, y, odd[0], odd[1]} : float4{even[0], even[1], x, y};
        const float4& old = before[j];
        if (16 * (i + j) < columns) to[4 * (i + j)] = {own.x + old.x, own.y + old.y, own.z + old.z, own.w + old.w};
      }
    }
  }
}

template <bool is_fp16, int count>
__device__ void store_16_bits(const Product& p, int first_row, int first_column, const float (&d)[count]) {
  using Result = std::conditional_t<is_fp16, __half, __nv_bfloat16>;
  const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + thread / 32 * 16 + thread % 32 / 4 + 8 * half;
    Result* const to = static_cast<Result*>(p.c) + static_cast<std::int64_t>(row) * p.n;
#pragma unroll
    for (int i = 0; i < count / 4; i += 4) {
      std::uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float first = d[4 * (i + j) + 2 * half], second = d[4 * (i + j) + 2 * half + 1];
        const int column = first_column + 8 * (i + j) + 2 * lane;
        if (p.accumulates && row < p.m && column < p.n) {
          first += value_of(to[column]);
          second += value_of(to[column + 1]);
        }
        words[j] = rounded<is_fp16>(first, second);
      }
      transpose(words, lane);
      const int column = first_column + 8 * (i + lane);
      if (row < p.m && column < p.n) {
        *reinterpret_cast<uint4*>(to + column) = make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }
}

/// A tile of 128 rows is computed by warpgroups of 64 rows, one of 64 rows by warpgroups of 128 columns.
template <int rows, bool is_a_strided, bool is_b_strided, bool is_fp16, bool gives_fp32>
__device__ void compute_tiles(const Arguments& all, int consumer, const char* ring, std::uint64_t* full,
                              std::uint64_t* empty) {
  constexpr bool shares_rows = rows == 64;
  constexpr int kSlice = 16;  // of k, of an instruction
  // Bytes to the next slice: along swizzled rows of 128 bytes, or 16 of these rows further.
  constexpr int kNextOfA = kSlice * (is_a_strided ? 128 : kElement),
                kNextOfB = kSlice * (is_b_strided ? 128 : kElement);
  const int own_a = shares_rows ? 0 : consumer * kBlock, own_b = shares_rows ? consumer * 2 * kBlock : 0;
  const bool is_first = threadIdx.x % 128 == 0;
  float d[shares_rows ? 64 : 128];
  Position<kStages<rows>> at;
  Tiles<rows> tiles(all);
  while (tiles.next()) {
    const Product& p = *tiles.product;
    int last = 0;  // the stage before
    for (int k = 0; k < p.k; k += kDepth) {
      wait(full + at.stage, at.parity);
      const char* const a = ring + at.stage * kStageBytes<rows> + own_a;
      const char* const b = ring + at.stage * kStageBytes<rows> + rows * kDepth * kElement + own_b;
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int i = 0; i < kDepth / kSlice; ++i) {
        multiply<is_fp16, is_a_strided, is_b_strided>(d, descriptor(a + i * kNextOfA), descriptor(b + i * kNextOfB),
                                                      k > 0 || i > 0 ? 1 : 0);
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      if (is_first && k > 0) arrive(empty + last);
      last = at.stage;
      at.advance();
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (is_first) arrive(empty + last);
    const int row = tiles.row + (shares_rows ? 0 : 64 * consumer);
    const int column = tiles.column + (shares_rows ? 128 * consumer : 0);
    if constexpr (gives_fp32) {
      store_fp32(p, row, column, d);
    } else {
      store_16_bits<is_fp16>(p, row, column, d);
    }
  }
}

template <int rows, bool is_a_strided, bool is_b_strided, bool is_fp16, bool gives_fp32>
__global__ void __launch_bounds__(kThreads, 1) products(const __grid_constant__ Arguments all) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ char shared[];
  constexpr std::uint32_t kAlignment = 1024;  // of swizzled boxes
  char* const ring = shared + (kAlignment - shared_address(shared) % kAlignment) % kAlignment;
  auto* const full = reinterpret_cast<std::uint64_t*>(ring + kStages<rows> * kStageBytes<rows>);
  std::uint64_t* const empty = full + kStages<rows>;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages<rows>; ++i) {
      initialise(full + i, 1);
      initialise(empty + i, kConsumers);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  if (warpgroup == kConsumers) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x / 32 == kConsumers * 4) {
      load_tiles<rows, is_a_strided, is_b_strided, gives_fp32 ? 4 : kElement>(all, ring, full, empty);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    compute_tiles<rows, is_a_strided, is_b_strided, is_fp16, gives_fp32>(all, warpgroup, ring, full, empty);
  }
#endif
}

using Encode = decltype(&cuTensorMapEncodeTiled);

/// The driver's function that makes tensor maps; null if it has none.
Encode encoder() {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  constexpr unsigned kVersion = 12000;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, kVersion, cudaEnableDefault, &result) !=
      cudaSuccess) {
    return nullptr;
  }
  return reinterpret_cast<Encode>(found);
}

/// The map of a matrix of `outer` rows of `inner` elements, in boxes of 64 elements of `box` rows.
bool encode(Encode encoder, CUtensorMap& map, const void* data, bool is_fp16, int inner, int outer, int box) {
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(inner), static_cast<cuuint64_t>(outer)};
  const cuuint64_t stride[] = {static_cast<cuuint64_t>(inner) * kElement};
  const cuuint32_t boxes[] = {64, static_cast<cuuint32_t>(box)}, steps[] = {1, 1};
  return encoder(&map, is_fp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
                 const_cast<void*>(data), sizes, stride, boxes, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                 CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <int rows, bool is_a_strided, bool is_b_strided, bool is_fp16, bool gives_fp32>
cudaError_t start(const Arguments& all, int blocks, cudaStream_t stream) {
  const auto kernel = products<rows, is_a_strided, is_b_strided, is_fp16, gives_fp32>;
  const cudaError_t code =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes<rows>);
  if (code != cudaSuccess) return code;
  kernel<<<blocks, kThreads, kSharedBytes<rows>, stream>>>(all);
  return cudaGetLastError();
}

template <int rows, bool is_a_strided, bool is_b_strided>
cudaError_t start(const GroupedLaunch& launch, const Arguments& all, int blocks, cudaStream_t stream) {
  if (launch.is_fp16) {
    return launch.gives_fp32 ? start<rows, is_a_strided, is_b_strided, true, true>(all, blocks, stream)
                             : start<rows, is_a_strided, is_b_strided, true, false>(all, blocks, stream);
  }
  return launch.gives_fp32 ? start<rows, is_a_strided, is_b_strided, false, true>(all, blocks, stream)
                           : start<rows, is_a_strided, is_b_strided, false, false>(all, blocks, stream);
}

template <int rows>
cudaError_t start(const GroupedLaunch& launch, const Arguments& all, cudaStream_t stream) {
  const int blocks = all.rounds.all_blocks();
  if (launch.transposes_a) return start<rows, true, true>(launch, all, blocks, stream);
  return launch.transposes_b ? start<rows, false, false>(launch, all, blocks, stream)
                             : start<rows, false, true>(launch, all, blocks, stream);
}

/// The launch of at most kMostProducts products from `first` on, by tiles of this many rows.
template <int rows>
cudaError_t start(const GroupedLaunch& launch, int first, Encode encoder, cudaStream_t stream) {
  Arguments all;
  all.count = std::min(kMostProducts, launch.count - first);
  int tiles = 0;
  std::int64_t steps = 0;
  for (int i = 0; i < all.count; ++i) {
    const GroupedProduct& from = launch.products[first + i];
    Product& p = all.products[i];
    p.c = from.c;
    p.m = from.m;
    p.n = from.n;
    p.k = from.k;
    p.accumulates = from.accumulates;
    p.first_tile = tiles;
    const int own = tiles_along(p.m, rows) * tiles_along(p.n, kColumns);
    tiles += own;
    steps += std::int64_t{own} * tiles_along(p.k, kDepth);
    const bool is_a_strided = launch.transposes_a, is_b_strided = !launch.transposes_b;
    if (!encode(encoder, p.a, from.a, launch.is_fp16, is_a_strided ? p.m : p.k, is_a_strided ? p.k : p.m,
                is_a_strided ? kDepth : rows) ||
        !encode(encoder, p.b, from.b, launch.is_fp16, is_b_strided ? p.n : p.k, is_b_strided ? p.k : p.n,
                is_b_strided ? kDepth : kColumns)) {
      return cudaErrorInvalidValue;
    }
  }
  all.rounds = {tiles, std::min(tiles, launch.multiprocessors),
                static_cast<int>(std::max<std::int64_t>(1, kStepsOfBlock * tiles / steps))};
  return start<rows>(launch, all, stream);
}

}  // namespace

bool has_hopper_products() { return true; }

int launch_hopper_products(const GroupedLaunch& launch, CUstream_st* stream) {
  static const Encode encoder = runtime::encoder();
  if (encoder == nullptr) return cudaErrorNotSupported;
  const bool is_low =
      std::all_of(launch.products, launch.products + launch.count, [](const GroupedProduct& p) { return p.m <= 64; });
  for (int first = 0; first < launch.count; first += kMostProducts) {
    const cudaError_t code =
        is_low ? start<64>(launch, first, encoder, stream) : start<128>(launch, first, encoder, stream);
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

}  // namespace moeplan::runtime
