// How cuBLAS names what a product is made of.
#pragma once

#include "model/program/program.hpp"

namespace moeplan::runtime {

/// Enumerators of cuBLAS's headers, for those that do not include them. Row by row C = A B is column by column
/// C^T = B^T A^T, so that our B is cuBLAS's first operand.
struct ProductTypes {
  int data;     // cudaDataType_t
  int compute;  // cublasComputeType_t
  int first;    // cublasOperation_t, of our B
  int second;   // of our A
};
[[nodiscard]] ProductTypes product_types(Gemm::Form form, Dtype dtype);

}  // namespace moeplan::runtime
