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

  /// Whether MOEPLAN_CUDA_GROUPED is 1.
  [[nodiscard]] bool is_requested() const { return is_requested_; }
  /// Enqueues products as one call, if that is requested and supported: by this build's cuBLAS, and with addresses and
  /// rows of operands that are multiples of 16 bytes. Otherwise returns false, and the first time prints why.
  [[nodiscard]] bool run(const Products& products, CUstream_st* stream, const ProductWorkspace& workspace);

 private:
  struct State;
  [[nodiscard]] bool refuse(const Products& products, const char* why);

  RankId rank_;
  bool is_requested_;
  bool has_refused_ = false;
  std::unique_ptr<State> state_;
};

}  // namespace moeplan::runtime
