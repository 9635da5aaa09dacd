// The sizes and formats of the benchmarks of `moeplan profile --backend`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/machine/dtype.hpp"
#include "model/operators/gemm_shape.hpp"

namespace moeplan::runtime {

/// The scale of the measured sizes and formats: layers that CPU cores or GPUs execute.
enum class BenchmarkScale { Cores, Gpus };

/// The sizes of each kind of operation, from a small layer's to a large one's.
struct BenchmarkSizes {
  Dtype dtype;
  std::vector<Dtype> peaks;  // other formats whose peak is measured, where there are products in them
  std::int64_t columns;      // of the rows of kernels
  std::vector<std::int64_t> rows;
  std::size_t codec_rows;  // index in `rows`, for codecs
  std::vector<GemmShape> products;
  std::size_t concurrent;            // index in `products`, of the group measured concurrently with an all-to-all
  std::int64_t concurrent_products;  // such groups in a row, during which an all-to-all is measured; 0: it is not
  std::int64_t groups;               // products per grouped GEMM
  std::size_t grouped;               // how many of `products` are measured as groups
  std::int64_t sustained;            // how often the last of `products` is repeated in a row; 0: not measured
  std::vector<std::int64_t> bytes;   // of a collective
  std::vector<std::int64_t> paired;  // of a concurrent all-to-all and all-gather
  std::int64_t concurrent_bytes;     // of these all-to-alls, one of `bytes`
};

[[nodiscard]] const BenchmarkSizes& sizes_of(BenchmarkScale scale);

/// The layers of a table of operators.
struct OperatorSizes {
  struct Weights {
    std::int64_t inputs, outputs;
  };
  struct Experts {
    std::int64_t local;
    Weights weights;
  };
  std::vector<Weights> weights;
  std::vector<std::int64_t> tokens;
  std::vector<Experts> experts;
  std::vector<std::int64_t> rows_of_expert;
};
[[nodiscard]] const OperatorSizes& operator_sizes();

}  // namespace moeplan::runtime
