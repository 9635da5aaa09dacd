// Several products as one call of cuBLAS, which has it from 12.5 on.
#pragma once

#include <cstddef>
#include <memory>

#include "cuda_runtime/device/device.hpp"
#include "model/base/ids.hpp"

struct CUstream_st;

namespace moeplan::runtime {

/// Of a stream, which products may use while they run.
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

  /// Whether one call can take them: the cuBLAS that this was built with has it, MOEPLAN_CUDA_GROUPED is not 0, and all
  /// operands begin at multiples of 16 bytes.
  [[nodiscard]] bool can_run(const Products& products) const;
  /// Those that can be. Not in a capture: whether what the call reads on the host is kept for later is not documented.
  void run(const Products& products, CUstream_st* stream, const ProductWorkspace& workspace);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moeplan::runtime
