#include "cuda_runtime/cuda/grouped_products.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "cuda_runtime/cuda/check.hpp"
#include "cuda_runtime/cuda/product_types.hpp"
#include "model/machine/dtype.hpp"
#include "model/text/reader.hpp"

#if MOEPLAN_HAS_CUBLAS
#include <cublas_v2.h>
#if CUBLAS_VER_MAJOR > 12 || (CUBLAS_VER_MAJOR == 12 && CUBLAS_VER_MINOR >= 5)
#define MOEPLAN_HAS_GROUPED_PRODUCTS 1
#endif
#endif

namespace moeplan::runtime {

namespace {

bool has_requested() {
  const char* wanted = std::getenv("MOEPLAN_CUDA_GROUPED");
  return wanted != nullptr && std::string_view(wanted) == "1";
}

}  // namespace

#if MOEPLAN_HAS_GROUPED_PRODUCTS

namespace {

/// Whether addresses and leading dimensions of the operands are multiples of 16 bytes, as the kernels for Ampere need.
bool is_aligned(const MatrixProduct& p, const Products& all) {
  const auto address = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data); };
  constexpr std::uintptr_t kBytes = 16;
  const std::int64_t columns_of_a = all.form == Gemm::Form::TN ? p.m : p.k;
  const std::int64_t columns_of_b = all.form == Gemm::Form::NT ? p.k : p.n;
  const auto rows = static_cast<std::uintptr_t>((columns_of_a | columns_of_b | p.n) * size_of(all.dtype));
  return ((address(p.a) | address(p.b) | address(p.c) | rows) % kBytes) == 0;
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
  cublasHandle_t handle = nullptr;

  explicit State(RankId rank) { check_cublas(cublasCreate(&handle), rank, "cublasCreate"); }
  ~State() { (void)cublasDestroy(handle); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

GroupedProducts::GroupedProducts(RankId rank) : rank_(rank), is_requested_(has_requested()) {
  if (is_requested_) state_ = std::make_unique<State>(rank);
}

bool GroupedProducts::run(const Products& all, CUstream_st* stream, const ProductWorkspace& workspace) {
  if (!is_requested_) return false;
  if (!std::all_of(all.products.begin(), all.products.end(), [&](const auto& p) { return is_aligned(p, all); })) {
    return refuse(all, "addresses or rows are not multiples of 16 bytes");
  }
  cublasHandle_t handle = state_->handle;
  const Groups groups(all.products, all.form);
  const ProductTypes types = product_types(all.form, all.dtype, all.result);
  const std::vector<cublasOperation_t> first(groups.m.size(), static_cast<cublasOperation_t>(types.first)),
      second(groups.m.size(), static_cast<cublasOperation_t>(types.second));
  const std::size_t count = all.products.size();
  // cuBLAS writes to the addresses of C, which are stored after those of A and B.
  auto* const* c = const_cast<void* const*>(all.addresses + 2 * count);
  const auto type = static_cast<cudaDataType_t>(types.data), result = static_cast<cudaDataType_t>(types.result);
  const auto compute = static_cast<cublasComputeType_t>(types.compute);
  check_cublas(cublasSetStream(handle, stream), rank_, "cublasSetStream");
  // cublasSetStream resets the workspace to the library's default.
  check_cublas(cublasSetWorkspace(handle, workspace.data, workspace.bytes), rank_, "cublasSetWorkspace");
  const cublasStatus_t status = cublasGemmGroupedBatchedEx(
      handle, first.data(), second.data(), groups.m.data(), groups.n.data(), groups.k.data(), groups.alpha.data(),
      all.addresses + count, type, groups.first.data(), all.addresses, type, groups.second.data(), groups.beta.data(),
      c, result, groups.out.data(), static_cast<int>(groups.m.size()), groups.count.data(), compute);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
    return refuse(all, cublasLtGetStatusName(status));
  }
  check_cublas(status, rank_, "cublasGemmGroupedBatchedEx");
  return true;
}

#else

struct GroupedProducts::State {};
GroupedProducts::GroupedProducts(RankId rank) : rank_(rank), is_requested_(has_requested()) {}
bool GroupedProducts::run(const Products& all, CUstream_st*, const ProductWorkspace&) {
  return is_requested_ && refuse(all, "this build has no cuBLAS of version 12.5 or later");
}

#endif

GroupedProducts::~GroupedProducts() = default;

bool GroupedProducts::refuse(const Products& all, const char* why) {
  if (has_refused_) return false;
  has_refused_ = true;
  const MatrixProduct& p = all.products.front();
  fmt::print(stderr, "rank {}: no grouped call for {} products ({} x {} x {} in {}, ...): {}; one call each instead\n",
             rank_.value(), all.products.size(), p.m, p.n, p.k, name_of<Dtype>(kDtypeNames, all.dtype), why);
  return false;
}

}  // namespace moeplan::runtime
