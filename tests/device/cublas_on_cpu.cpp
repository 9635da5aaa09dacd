// A CPU implementation of the calls that matrix products use, of cuBLASLt and of the kernel for Hopper, for tests
// (cudart_on_cpu.hpp).
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "cuda_runtime/cuda/hopper/hopper_products.hpp"
#include "cuda_runtime/kernels/formats.hpp"
#include "tests/device/cudart_on_cpu.hpp"
#include "tests/device/library_calls.hpp"

namespace {

using moeplan::kernels::Format;

Format format_of(cudaDataType_t type) {
  if (type == CUDA_R_16F) return Format::Fp16;
  return type == CUDA_R_16BF ? Format::Bf16 : Format::Fp32;
}

/// Column by column, `ld` elements apart.
struct Columns {
  const void* data;
  std::int64_t ld;
  bool is_transposed;
  [[nodiscard]] std::int64_t at(std::int64_t row, std::int64_t column) const {
    return is_transposed ? row * ld + column : column * ld + row;
  }
};

float factor(cudaDataType_t type, const void* data, std::int64_t i) {
  if (type == CUDA_R_8F_E4M3) return moeplan::kernels::from_fp8(static_cast<const std::uint8_t*>(data)[i]);
  return moeplan::kernels::load1(format_of(type), data, i);
}

void multiply(cudaDataType_t type, Format result, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
              const Columns& a, const Columns& b, float beta, void* c, std::int64_t ldc) {
  using namespace moeplan::kernels;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (std::int64_t l = 0; l < k; ++l) sum += factor(type, a.data, a.at(i, l)) * factor(type, b.data, b.at(l, j));
      const float before = beta == 0 ? 0 : beta * load1(result, c, j * ldc + i);
      store1(result, c, j * ldc + i, alpha * sum + before);
    }
  }
}

/// What cuBLASLt's descriptions are here; its own types say nothing of what is in them.
struct Layout {
  cudaDataType_t type;
  std::int64_t rows, columns, ld;
};
struct Description {
  cublasOperation_t first = CUBLAS_OP_N, second = CUBLAS_OP_N;
  bool accumulates_fast = false;
};

/// What cuBLASLt asks of products in fp8 (cuBLAS documentation, cublasLtMatmul), and fast accumulation of nothing else.
bool is_supported(const Description& how, const Layout& first, const Layout& second, const Layout& out) {
  if (first.type != CUDA_R_8F_E4M3) return !how.accumulates_fast;
  const auto is_whole = [](const Layout& l) { return l.rows % 16 == 0 && l.columns % 16 == 0; };
  return how.first == CUBLAS_OP_T && how.second == CUBLAS_OP_N && second.type == first.type &&
         out.type == CUDA_R_16BF && is_whole(first) && is_whole(second);
}

void called(const char* name) { ++moeplan::tests::library_calls()[name]; }

template <class To, class From>
To* as(From* from) {
  return reinterpret_cast<To*>(from);
}

}  // namespace

bool moeplan::runtime::has_hopper_products() { return true; }

int moeplan::runtime::launch_hopper_products(const GroupedLaunch& launch, CUstream_st* stream) {
  called("launch_hopper_products");
  const cudaDataType_t type = launch.is_fp16 ? CUDA_R_16F : CUDA_R_16BF;
  const Format result = launch.gives_fp32 ? Format::Fp32 : format_of(type);
  for (int i = 0; i < launch.count; ++i) {
    // The row-major C = A B is the column-major C^T = B^T A^T.
    const GroupedProduct p = launch.products[i];
    const Columns left{p.b, launch.transposes_b ? p.k : p.n, launch.transposes_b};
    const Columns right{p.a, launch.transposes_a ? p.m : p.k, launch.transposes_a};
    const float before = p.accumulates ? 1 : 0;
    moeplan::tests::on_stream(stream, [=] { multiply(type, result, p.n, p.m, p.k, 1, left, right, before, p.c, p.n); });
  }
  return cudaSuccess;
}

extern "C" {

const char* cublasLtGetStatusName(cublasStatus_t) { return "an error of cuBLAS"; }
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t ld) {
  *layout = as<cublasLtMatrixLayoutOpaque_t>(
      new Layout{type, static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns), ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete as<Layout>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t, cudaDataType_t) {
  *description = as<cublasLtMatmulDescOpaque_t>(new Description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete as<Description>(description);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t) {
  Description& d = *as<Description>(description);
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: d.first = *static_cast<const cublasOperation_t*>(value); break;
    case CUBLASLT_MATMUL_DESC_TRANSB: d.second = *static_cast<const cublasOperation_t*>(value); break;
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      called("fast accumulation");
      d.accumulates_fast = *static_cast<const std::int8_t*>(value) != 0;
      break;
    default: return CUBLAS_STATUS_INVALID_VALUE;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t,
                                                    const void*, std::size_t) {
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t first, cublasLtMatrixLayout_t second,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t out,
                                              cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t*,
                                              int* count) {
  called("cublasLtMatmulAlgoGetHeuristic");
  *count =
      is_supported(*as<Description>(description), *as<Layout>(first), *as<Layout>(second), *as<Layout>(out)) ? 1 : 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t first, const void* b, cublasLtMatrixLayout_t second,
                              const void* beta, const void*, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t out, const cublasLtMatmulAlgo_t*, void*, std::size_t,
                              cudaStream_t stream) {
  called("cublasLtMatmul");
  const Description& how = *as<Description>(description);
  const Layout &x = *as<Layout>(first), &y = *as<Layout>(second), &z = *as<Layout>(out);
  const bool is_first = how.first == CUBLAS_OP_T, is_second = how.second == CUBLAS_OP_T;
  const std::int64_t k = is_first ? x.rows : x.columns;
  const bool fits = (is_first ? x.columns : x.rows) == z.rows && (is_second ? y.rows : y.columns) == z.columns &&
                    (is_second ? y.columns : y.rows) == k;
  if (!fits) return CUBLAS_STATUS_INVALID_VALUE;
  moeplan::tests::on_stream(
      stream, [=, type = x.type, left = Columns{a, x.ld, is_first}, right = Columns{b, y.ld, is_second},
               of_product = *static_cast<const float*>(alpha), of_before = *static_cast<const float*>(beta)] {
        multiply(type, format_of(z.type), z.rows, z.columns, k, of_product, left, right, of_before, d, z.ld);
      });
  return CUBLAS_STATUS_SUCCESS;
}
}
