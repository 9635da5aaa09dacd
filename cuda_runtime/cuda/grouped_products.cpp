#include "cuda_runtime/cuda/grouped_products.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "cuda_runtime/cuda/check.hpp"
#include "cuda_runtime/cuda/product_types.hpp"

#if MOEPLAN_HAS_CUBLAS
#include <cublas_v2.h>
#if CUBLAS_VER_MAJOR > 12 || (CUBLAS_VER_MAJOR == 12 && CUBLAS_VER_MINOR >= 5)
#define MOEPLAN_HAS_GROUPED_PRODUCTS 1
#endif
#endif

namespace moeplan::runtime {

#if MOEPLAN_HAS_GROUPED_PRODUCTS

namespace {

bool is_aligned(const MatrixProduct& p) {
  const auto address = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data); };
  constexpr std::uintptr_t kBytes = 16;
  return ((address(p.a) | address(p.b) | address(p.c)) % kBytes) == 0;
}

/// The groups of a call: consecutive products of one shape. Our B is cuBLAS's first operand (product_types.hpp).
struct Groups {
  std::vector<int> m, n, k, first, second, out, count;  // first, second, out: leading dimensions of operands and result
  std::vector<float> alpha, beta;

  Groups(std::span<const MatrixProduct> products, Gemm::Form form) {
    const MatrixProduct* last = nullptr;
    for (const MatrixProduct& p : products) {
      if (last != nullptr && last->m == p.m && last->n == p.n && last->k == p.k && last->accumulates == p.accumulates) {
        ++count.back();
        continue;
      }
      last = &p;
      const int rows = static_cast<int>(p.m), columns = static_cast<int>(p.n), terms = static_cast<int>(p.k);
      m.push_back(columns);
      n.push_back(rows);
      k.push_back(terms);
      first.push_back(form == Gemm::Form::NT ? terms : columns);
      second.push_back(form == Gemm::Form::TN ? rows : terms);
      out.push_back(columns);
      count.push_back(1);
      alpha.push_back(1);
      beta.push_back(p.accumulates ? 1.0F : 0.0F);
    }
  }
};

}  // namespace

struct GroupedProducts::State {
  RankId rank;
  cublasHandle_t handle = nullptr;

  explicit State(RankId of) : rank(of) { check_cublas(cublasCreate(&handle), rank, "cublasCreate"); }
  ~State() { (void)cublasDestroy(handle); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

GroupedProducts::GroupedProducts(RankId rank) {
  const char* wanted = std::getenv("MOEPLAN_CUDA_GROUPED");
  if (wanted == nullptr || std::string_view(wanted) != "0") state_ = std::make_unique<State>(rank);
}

bool GroupedProducts::can_run(const Products& all) const {
  return state_ && std::all_of(all.products.begin(), all.products.end(), is_aligned);
}

void GroupedProducts::run(const Products& all, CUstream_st* stream, const ProductWorkspace& workspace) {
  assert(can_run(all) && "products that one call can take");
  const RankId rank = state_->rank;
  cublasHandle_t handle = state_->handle;
  const Groups groups(all.products, all.form);
  const ProductTypes types = product_types(all.form, all.dtype);
  const std::vector<cublasOperation_t> first(groups.m.size(), static_cast<cublasOperation_t>(types.first)),
      second(groups.m.size(), static_cast<cublasOperation_t>(types.second));
  const std::size_t count = all.products.size();
  // cuBLAS writes to the addresses of C, which are stored after those of A and B.
  auto* const* c = const_cast<void* const*>(all.addresses + 2 * count);
  const auto type = static_cast<cudaDataType_t>(types.data);
  const auto compute = static_cast<cublasComputeType_t>(types.compute);
  check_cublas(cublasSetStream(handle, stream), rank, "cublasSetStream");
  // cublasSetStream resets the workspace to the library's default.
  check_cublas(cublasSetWorkspace(handle, workspace.data, workspace.bytes), rank, "cublasSetWorkspace");
  check_cublas(
      cublasGemmGroupedBatchedEx(handle, first.data(), second.data(), groups.m.data(), groups.n.data(), groups.k.data(),
                                 groups.alpha.data(), all.addresses + count, type, groups.first.data(), all.addresses,
                                 type, groups.second.data(), groups.beta.data(), c, type, groups.out.data(),
                                 static_cast<int>(groups.m.size()), groups.count.data(), compute),
      rank, "cublasGemmGroupedBatchedEx");
}

#else

struct GroupedProducts::State {};
GroupedProducts::GroupedProducts(RankId) {}
bool GroupedProducts::can_run(const Products&) const { return false; }
void GroupedProducts::run(const Products&, CUstream_st*, const ProductWorkspace&) {
  assert(false && "cuBLAS has no such call");
}

#endif

GroupedProducts::~GroupedProducts() = default;

}  // namespace moeplan::runtime
