// Matrix products on a GPU: one cuBLASLt call each, several products on several streams, as Transformer Engine runs
// them; or several in one launch where that is asked for (grouped_products.hpp). The algorithm that cuBLASLt's
// heuristic selects for a shape is cached.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "cuda_runtime/device/device.hpp"
#include "model/base/ids.hpp"

struct CUstream_st;

namespace moeplan::runtime {

class LtProducts {
 public:
  /// A new stream on the same multiprocessors as another one.
  using StreamMaker = std::function<CUstream_st*(CUstream_st* of)>;
  /// `multiprocessors`: for which algorithms are selected; 0: those of the GPU.
  LtProducts(RankId rank, std::int64_t multiprocessors, StreamMaker make_stream);
  ~LtProducts();
  LtProducts(const LtProducts&) = delete;
  LtProducts& operator=(const LtProducts&) = delete;

  /// Enqueues products, as the same calls whether captured or not. The first call on a stream allocates workspaces and
  /// must not be captured.
  void run(const Products& products, CUstream_st* stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moeplan::runtime
