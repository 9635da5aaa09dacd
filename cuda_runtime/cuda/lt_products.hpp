// Matrix products on a GPU: several in one grouped cuBLAS call if possible, otherwise one cuBLASLt call each. The
// algorithm that cuBLASLt's heuristic selects for a shape is cached.
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

  /// Enqueues products. The first call on a stream allocates its workspace and must not be captured. A captured call is
  /// never grouped.
  void run(const Products& products, CUstream_st* stream, bool is_captured);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moeplan::runtime
