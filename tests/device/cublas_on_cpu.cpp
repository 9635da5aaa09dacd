// A CPU implementation of the cuBLAS and cuBLASLt calls that matrix products use, for tests (cudart_on_cpu.hpp).
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

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

cudaStream_t grouped_stream = nullptr;  // of the next grouped products

void called(const char* name) { ++moeplan::tests::library_calls()[name]; }

template <class To, class From>
To* as(From* from) {
  return reinterpret_cast<To*>(from);
}

}  // namespace

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy_v2(cublasHandle_t) { return CUBLAS_STATUS_SUCCESS; }
cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t stream) {
  grouped_stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void* data, std::size_t bytes) {
  return data != nullptr && bytes > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t, const cublasOperation_t* first,
                                          const cublasOperation_t* second, const int* m, const int* n, const int* k,
                                          const void* alpha, const void* const* a, cudaDataType_t type, const int* lda,
                                          const void* const* b, cudaDataType_t, const int* ldb, const void* beta,
                                          void* const* c, cudaDataType_t result, const int* ldc, int groups,
                                          const int* sizes, cublasComputeType_t) {
  called("cublasGemmGroupedBatchedEx");
  if (!moeplan::tests::grouped_products_are_supported()) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto* alphas = static_cast<const float*>(alpha);
  const auto* betas = static_cast<const float*>(beta);
  std::size_t i = 0;
  for (int g = 0; g < groups; ++g) {
    for (int j = 0; j < sizes[g]; ++j, ++i) {
      // The addresses are device memory, which is the host's here.
      moeplan::tests::on_stream(
          grouped_stream,
          [=, m = m[g], n = n[g], k = k[g], x = Columns{a[i], lda[g], first[g] == CUBLAS_OP_T},
           y = Columns{b[i], ldb[g], second[g] == CUBLAS_OP_T}, alpha = alphas[g], beta = betas[g], z = c[i],
           ldc = ldc[g]] { multiply(type, format_of(result), m, n, k, alpha, x, y, beta, z, ldc); });
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

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
