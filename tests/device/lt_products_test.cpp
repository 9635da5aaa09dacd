// What cuBLAS and cuBLASLt are asked for, by a CPU that does it.
#include "cuda_runtime/cuda/lt_products.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

#include "cuda_runtime/device/device_formats.hpp"
#include "model/base/random.hpp"
#include "tests/device/library_calls.hpp"

namespace moeplan::tests::lt_products_test {

using namespace moeplan::runtime;

namespace {

struct Sizes {
  std::int64_t m, n, k;
  bool accumulates;
};
const std::vector<Sizes> kSizes{{2, 3, 4, false}, {2, 3, 4, false}, {5, 3, 4, true}, {1, 7, 2, false}};

/// Operands of the products, and what their C must become.
class Work {
 public:
  Work(Gemm::Form form, Dtype dtype, bool is_aligned) : form_(form), dtype_(dtype), memory_(1 << 16) {
    Random random(7);
    for (const Sizes& s : kSizes) {
      auto* a = matrix(s.m * s.k, random, is_aligned);
      auto* b = matrix(s.n * s.k, random, is_aligned);
      auto* c = matrix(s.m * s.n, random, is_aligned);
      expected_.push_back(product(s, a, b, c));
      products_.push_back({a, b, c, s.m, s.n, s.k, s.accumulates});
    }
    for (const auto& p : products_) addresses_.push_back(p.a);
    for (const auto& p : products_) addresses_.push_back(p.b);
    for (const auto& p : products_) addresses_.push_back(p.c);
  }

  [[nodiscard]] Products all() const { return {form_, dtype_, products_, addresses_.data()}; }
  [[nodiscard]] bool is_right() const {
    for (std::size_t p = 0; p < products_.size(); ++p) {
      for (std::size_t i = 0; i < expected_[p].size(); ++i) {
        if (value(products_[p].c, static_cast<std::int64_t>(i)) != Approx(expected_[p][i]).margin(0.05)) return false;
      }
    }
    return true;
  }

 private:
  [[nodiscard]] float value(const void* data, std::int64_t i) const {
    return kernels::load1(format_of(dtype_), data, i);
  }

  std::byte* matrix(std::int64_t elements, Random& random, bool is_aligned) {
    std::byte* out = memory_.data() + used_ + (is_aligned ? 0 : 4);
    for (std::int64_t i = 0; i < elements; ++i) {
      kernels::store1(format_of(dtype_), out, i, static_cast<float>(2 * random.uniform() - 1));
    }
    constexpr std::size_t kApart = 512;
    used_ += kApart;
    return out;
  }

  [[nodiscard]] std::vector<double> product(const Sizes& s, const void* a, const void* b, const void* c) const {
    std::vector<double> out;
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        double sum = s.accumulates ? value(c, i * s.n + j) : 0;
        for (std::int64_t l = 0; l < s.k; ++l) {
          const double x = value(a, form_ == Gemm::Form::TN ? l * s.m + i : i * s.k + l);
          sum += x * value(b, form_ == Gemm::Form::NT ? j * s.k + l : l * s.n + j);
        }
        out.push_back(sum);
      }
    }
    return out;
  }

  Gemm::Form form_;
  Dtype dtype_;
  std::vector<std::byte> memory_;
  std::size_t used_ = 0;
  std::vector<MatrixProduct> products_;
  std::vector<const void*> addresses_;
  std::vector<std::vector<double>> expected_;
};

}  // namespace

TEST_CASE("Several products are one call of cuBLAS, or one of cuBLASLt each, with the same values") {
  const auto form = GENERATE(Gemm::Form::NN, Gemm::Form::NT, Gemm::Form::TN);
  const auto dtype = GENERATE(Dtype::Fp32, Dtype::Tf32, Dtype::Bf16, Dtype::Fp16);
  auto& calls = tests::library_calls();
  calls.clear();
  const auto run = [&](bool is_captured, bool is_aligned) {
    LtProducts products(RankId(0));
    Work work(form, dtype, is_aligned);
    products.run(work.all(), nullptr, is_captured);
    CHECK(work.is_right());
  };
  const int all = static_cast<int>(kSizes.size());
  SECTION("one call, because this cuBLAS has it") {
    run(false, true);
    CHECK(calls["cublasGemmGroupedBatchedEx"] == 1);
    CHECK(calls["cublasLtMatmul"] == 0);
    CHECK(calls["cudaMalloc"] == 1);  // the stream's workspace
  }
  SECTION("one each in a capture, because of what the host must keep") { run(true, true); }
  SECTION("one each where an operand does not lie as the call wants it") { run(false, false); }
  SECTION("one each where that is wanted") {
    ::setenv("MOEPLAN_CUDA_GROUPED", "0", 1);
    run(false, true);
    ::unsetenv("MOEPLAN_CUDA_GROUPED");
  }
  if (calls["cublasGemmGroupedBatchedEx"] == 0) {
    CHECK(calls["cublasLtMatmul"] == all);
    CHECK(calls["cublasLtMatmulAlgoGetHeuristic"] == all - 1);  // two have one shape
  }
}

TEST_CASE("A single product is one of cuBLASLt") {
  auto& calls = tests::library_calls();
  calls.clear();
  LtProducts products(RankId(0));
  Work work(Gemm::Form::NN, Dtype::Fp32, true);
  Products one = work.all();
  one.products = one.products.first(1);
  products.run(one, nullptr, false);
  CHECK(calls["cublasLtMatmul"] == 1);
  CHECK(calls["cublasGemmGroupedBatchedEx"] == 0);
}

}  // namespace moeplan::tests::lt_products_test
