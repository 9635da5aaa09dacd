#include "cuda_runtime/cuda/product_types.hpp"

#include <cublasLt.h>

namespace moeplan::runtime {

namespace {

cudaDataType_t type_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::Fp16: return CUDA_R_16F;
    case Dtype::Bf16: return CUDA_R_16BF;
    case Dtype::Fp8: return CUDA_R_8F_E4M3;
    default: return CUDA_R_32F;
  }
}

}  // namespace

ProductTypes product_types(Gemm::Form form, Dtype dtype, Dtype result) {
  return {.data = type_of(dtype),
          .result = type_of(result),
          .compute = dtype == Dtype::Tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
          .first = form == Gemm::Form::NT ? CUBLAS_OP_T : CUBLAS_OP_N,
          .second = form == Gemm::Form::TN ? CUBLAS_OP_T : CUBLAS_OP_N,
          .accumulates_fast = dtype == Dtype::Fp8};
}

}  // namespace moeplan::runtime
