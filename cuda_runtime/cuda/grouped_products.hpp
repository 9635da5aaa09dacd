// Grouped GEMM: several products in one cuBLAS call, available from cuBLAS 12.5 on.
#pragma once

#include <cstddef>
#include <memory>

#include "cuda_runtime/device/device.hpp"
#include "model/base/ids.hpp"

struct CUstream_st;

namespace moeplan::runtime {

/// The workspace of a stream, used by products while they execute.
struct ProductWorkspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

class GroupedProducts {
 public:
  explicit GroupedProducts(RankId rank);
  ~GroupedProducts();
  GroupedProducts(const GroupedProducts&) = delete;
  GroupedProducts& operator=(const GroupedProducts&) = delete;

  /// Whether one call can compute these products: the build's cuBLAS supports it, MOEPLAN_CUDA_GROUPED is not 0, and
  /// all operands are aligned to 16 bytes.
  [[nodiscard]] bool can_run(const Products& products) const;
  /// Enqueues products for which can_run() holds. Not allowed during a capture: whether a graph keeps what the call
  /// reads from host memory is not documented.
  void run(const Products& products, CUstream_st* stream, const ProductWorkspace& workspace);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moeplan::runtime
