// Grouped GEMM: several products in one launch, on Hopper.
#pragma once

#include <cstdint>

#include "cuda_runtime/device/device.hpp"
#include "model/base/ids.hpp"

struct CUstream_st;

namespace moeplan::runtime {

class GroupedProducts {
 public:
  /// On the current device. `multiprocessors`: that kernels run on; 0: those of the GPU.
  GroupedProducts(RankId rank, std::int64_t multiprocessors);

  /// Enqueues products as one launch if MOEPLAN_CUDA_GROUPED is 1, they are of 16-bit formats, the GPU is of compute
  /// capability 9.0, and this build has the kernel (hopper_products.hpp). Otherwise returns false: also where addresses
  /// or rows are not multiples of 16 bytes, which the first time it prints.
  [[nodiscard]] bool run(const Products& products, CUstream_st* stream);

 private:
  RankId rank_;
  std::int64_t multiprocessors_ = 0;  // 0: no such launches
  bool has_refused_ = false;
};

}  // namespace moeplan::runtime
