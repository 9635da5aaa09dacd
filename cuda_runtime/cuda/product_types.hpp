// The cuBLAS types and operations of a matrix product.
#pragma once

#include "model/program/program.hpp"

namespace moeplan::runtime {

/// Values of cuBLAS enumerators, for sources that do not include its headers. The row-major product C = A B is the
/// column-major product C^T = B^T A^T, so that our B is cuBLAS's first operand.
struct ProductTypes {
  int data;                       // cudaDataType_t of A and B
  int result;                     // cudaDataType_t of C
  int compute;                    // cublasComputeType_t
  int first;                      // cublasOperation_t, of our B
  int second;                     // of our A
  bool accumulates_fast = false;  // cuBLASLt's fast accumulation, as in Transformer Engine's forward products in fp8
};
[[nodiscard]] ProductTypes product_types(Gemm::Form form, Dtype dtype, Dtype result);

}  // namespace moeplan::runtime
