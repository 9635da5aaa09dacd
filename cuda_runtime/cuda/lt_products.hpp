// Products: several in one call of cuBLAS where that can be, else by cuBLASLt, one call each; what its heuristic
// chooses for a shape is kept.
#pragma once

#include <memory>

#include "cuda_runtime/device/device.hpp"
#include "model/base/ids.hpp"

struct CUstream_st;

namespace moeplan::runtime {

class LtProducts {
 public:
  explicit LtProducts(RankId rank);
  ~LtProducts();
  LtProducts(const LtProducts&) = delete;
  LtProducts& operator=(const LtProducts&) = delete;

  /// A stream's first products allocate its workspace: not in a capture. In a capture, one call each.
  void run(const Products& products, CUstream_st* stream, bool is_captured);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moeplan::runtime
