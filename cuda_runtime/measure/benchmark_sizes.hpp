// Sizes and formats of what `moeplan profile --backend` measures.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda_runtime/measure/benchmarks.hpp"

namespace moeplan::runtime {

/// Sizes of one operation each, from those of a small layer's to those of a large one's.
struct BenchmarkSizes {
  Dtype dtype;
  std::vector<Dtype> peaks;  // other formats whose fastest product is measured
  std::int64_t columns;      // of the rows that kernels work on
  std::vector<std::int64_t> rows;
  std::size_t codec_rows;  // which of them
  std::vector<GemmShape> products;
  std::size_t beside;                // which of them runs beside an all-to-all
  std::int64_t groups;               // products of a grouped GEMM
  std::size_t grouped;               // how many of the products are measured as groups
  std::vector<std::int64_t> bytes;   // of a collective
  std::vector<std::int64_t> paired;  // of an all-to-all and an all-gather at once
  std::int64_t beside_bytes;
};

[[nodiscard]] const BenchmarkSizes& sizes_of(BenchmarkScale scale);

}  // namespace moeplan::runtime
