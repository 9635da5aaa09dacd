#include "cuda_runtime/cuda/grouped_products.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <vector>

#include "cuda_runtime/cuda/check.hpp"
#include "cuda_runtime/cuda/hopper/hopper_products.hpp"
#include "model/machine/dtype.hpp"
#include "model/text/reader.hpp"

namespace moeplan::runtime {

namespace {

bool is_requested() {
  const char* wanted = std::getenv("MOEPLAN_CUDA_GROUPED");
  return wanted != nullptr && std::string_view(wanted) == "1";
}

/// Whether addresses and rows are multiples of 16 bytes, as the kernel needs, and sizes are 32-bit numbers.
bool is_suitable(const MatrixProduct& p, const Products& all) {
  const auto address = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data); };
  constexpr std::uintptr_t kBytes = 16;
  const std::int64_t columns_of_a = all.form == Gemm::Form::TN ? p.m : p.k;
  const std::int64_t columns_of_b = all.form == Gemm::Form::NT ? p.k : p.n;
  const auto rows = static_cast<std::uintptr_t>((columns_of_a | columns_of_b | p.n) * size_of(all.dtype));
  return ((address(p.a) | address(p.b) | address(p.c) | rows) % kBytes) == 0 &&
         std::max({p.m, p.n, p.k}) <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace

GroupedProducts::GroupedProducts(RankId rank, std::int64_t multiprocessors) : rank_(rank) {
  if (!has_hopper_products() || !is_requested()) return;
  int device = 0;
  check_cuda(cudaGetDevice(&device), rank, "cudaGetDevice");
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    check_cuda(cudaDeviceGetAttribute(&value, which, device), rank, "cudaDeviceGetAttribute");
    return value;
  };
  constexpr int kMajor = 9, kMinor = 0;
  if (attribute(cudaDevAttrComputeCapabilityMajor) != kMajor) return;
  if (attribute(cudaDevAttrComputeCapabilityMinor) != kMinor) return;
  multiprocessors_ = multiprocessors > 0 ? multiprocessors : attribute(cudaDevAttrMultiProcessorCount);
}

bool GroupedProducts::run(const Products& all, CUstream_st* stream) {
  if (multiprocessors_ == 0 || (all.dtype != Dtype::Bf16 && all.dtype != Dtype::Fp16)) return false;
  if (!std::all_of(all.products.begin(), all.products.end(), [&](const auto& p) { return is_suitable(p, all); })) {
    if (has_refused_) return false;
    has_refused_ = true;
    const MatrixProduct& p = all.products.front();
    fmt::print(stderr,
               "rank {}: {} products ({} x {} x {} in {}, ...) are not one launch but one each: "
               "addresses or rows are not multiples of 16 bytes\n",
               rank_.value(), all.products.size(), p.m, p.n, p.k, name_of<Dtype>(kDtypeNames, all.dtype));
    return false;
  }
  std::vector<GroupedProduct> products;
  for (const MatrixProduct& p : all.products) {
    products.push_back({p.a, p.b, p.c, static_cast<std::int32_t>(p.m), static_cast<std::int32_t>(p.n),
                        static_cast<std::int32_t>(p.k), p.accumulates});
  }
  const GroupedLaunch launch{.products = products.data(),
                             .count = static_cast<int>(products.size()),
                             .transposes_a = all.form == Gemm::Form::TN,
                             .transposes_b = all.form == Gemm::Form::NT,
                             .is_fp16 = all.dtype == Dtype::Fp16,
                             .gives_fp32 = all.result == Dtype::Fp32,
                             .multiprocessors = static_cast<int>(multiprocessors_)};
  check_cuda(launch_hopper_products(launch, stream), rank_, "a launch of grouped products");
  return true;
}

}  // namespace moeplan::runtime
