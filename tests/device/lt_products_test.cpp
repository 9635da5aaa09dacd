// What cuBLAS and cuBLASLt are asked for, by a CPU that does it.
#include "cuda_runtime/cuda/lt_products.hpp"

#include <cuda_runtime_api.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <vector>

#include "cuda_runtime/host/element_format.hpp"
#include "model/base/random.hpp"
#include "tests/device/cudart_on_cpu.hpp"
#include "tests/device/library_calls.hpp"

namespace moeplan::tests::lt_products_test {

using namespace moeplan::runtime;

namespace {

struct Sizes {
  std::int64_t m, n, k;
  bool accumulates;
};
const std::vector<Sizes> kSizes{{2, 3, 4, false}, {2, 3, 4, false}, {5, 3, 4, true}, {1, 7, 2, false}};
const std::vector<Sizes> kWide{{8, 16, 8, false}, {8, 16, 8, false}, {16, 8, 8, true}};
const std::vector<Sizes> kWhole{{16, 32, 48, false}, {32, 16, 16, true}};

/// Where operands begin, and how long their rows are.
enum class Lay { Aligned, Unaligned, WideRows, Whole16s };

struct OneGpu {
  explicit OneGpu(std::uint64_t seed) { tests::the_gpu() = std::make_unique<tests::FakeDevice>(seed); }
  ~OneGpu() { tests::the_gpu().reset(); }
  OneGpu(const OneGpu&) = delete;
  OneGpu& operator=(const OneGpu&) = delete;
};

/// A GPU on which several products can be one launch, and a user who asks for that.
struct Hopper {
  Hopper() {
    tests::compute_capability() = 9;
    ::setenv("MOEPLAN_CUDA_GROUPED", "1", 1);
  }
  ~Hopper() {
    tests::compute_capability() = 8;
    ::unsetenv("MOEPLAN_CUDA_GROUPED");
  }
  Hopper(const Hopper&) = delete;
  Hopper& operator=(const Hopper&) = delete;
};

/// Operands of the products, and what their C must become.
class Work {
 public:
  Work(Gemm::Form form, Dtype dtype, Lay lay) : Work(form, dtype, dtype, lay) {}
  Work(Gemm::Form form, Dtype dtype, Dtype result, Lay lay)
      : form_(form), dtype_(dtype), result_(result), memory_(1 << 17) {
    Random random(7);
    const bool is_aligned = lay != Lay::Unaligned;
    const auto& sizes = lay == Lay::WideRows ? kWide : lay == Lay::Whole16s ? kWhole : kSizes;
    for (const Sizes& s : sizes) {
      auto* a = matrix(dtype, s.m * s.k, random, is_aligned);
      auto* b = matrix(dtype, s.n * s.k, random, is_aligned);
      auto* c = matrix(result, s.m * s.n, random, is_aligned);
      expected_.push_back(product(s, a, b, c));
      products_.push_back({a, b, c, s.m, s.n, s.k, s.accumulates});
    }
  }

  [[nodiscard]] Products all() const { return {form_, dtype_, result_, products_}; }
  [[nodiscard]] bool is_right() const {
    for (std::size_t p = 0; p < products_.size(); ++p) {
      for (std::size_t i = 0; i < expected_[p].size(); ++i) {
        if (value(result_, products_[p].c, static_cast<std::int64_t>(i)) != Approx(expected_[p][i]).margin(0.05))
          return false;
      }
    }
    return true;
  }

 private:
  [[nodiscard]] static float value(Dtype dtype, const void* data, std::int64_t i) {
    if (dtype == Dtype::Fp8) return kernels::from_fp8(static_cast<const std::uint8_t*>(data)[i]);
    return kernels::load1(format_of(dtype), data, i);
  }

  std::byte* matrix(Dtype dtype, std::int64_t elements, Random& random, bool is_aligned) {
    std::byte* out = memory_.data() + used_ + (is_aligned ? 0 : 4);
    for (std::int64_t i = 0; i < elements; ++i) {
      const auto v = static_cast<float>(2 * random.uniform() - 1);
      if (dtype == Dtype::Fp8) {
        out[i] = std::byte{kernels::fp8_of(v)};
      } else {
        kernels::store1(format_of(dtype), out, i, v);
      }
    }
    constexpr std::size_t kApart = 2048;
    used_ += kApart;
    return out;
  }

  [[nodiscard]] std::vector<double> product(const Sizes& s, const void* a, const void* b, const void* c) const {
    std::vector<double> out;
    for (std::int64_t i = 0; i < s.m; ++i) {
      for (std::int64_t j = 0; j < s.n; ++j) {
        double sum = s.accumulates ? value(result_, c, i * s.n + j) : 0;
        for (std::int64_t l = 0; l < s.k; ++l) {
          const double x = value(dtype_, a, form_ == Gemm::Form::TN ? l * s.m + i : i * s.k + l);
          sum += x * value(dtype_, b, form_ == Gemm::Form::NT ? j * s.k + l : l * s.n + j);
        }
        out.push_back(sum);
      }
    }
    return out;
  }

  Gemm::Form form_;
  Dtype dtype_, result_;
  std::vector<std::byte> memory_;
  std::size_t used_ = 0;
  std::vector<MatrixProduct> products_;
  std::vector<std::vector<double>> expected_;
};

void run(const Products& all) {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  LtProducts products(RankId(0), /*multiprocessors=*/0, [](CUstream_st*) {
    cudaStream_t lane = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&lane, cudaStreamNonBlocking) == cudaSuccess);
    return lane;
  });
  products.run(all, stream);
  REQUIRE(tests::the_gpu()->is_idle());
}
void run(const Work& work) { run(work.all()); }

}  // namespace

TEST_CASE("Several products are one of cuBLASLt each, on streams of their own") {
  const auto form = GENERATE(Gemm::Form::NN, Gemm::Form::NT, Gemm::Form::TN);
  const auto dtype = GENERATE(Dtype::Fp32, Dtype::Tf32, Dtype::Bf16, Dtype::Fp16);
  const OneGpu gpu(7);
  auto& calls = tests::library_calls();
  calls.clear();
  const Work work(form, dtype, Lay::Aligned);
  run(work);
  CHECK(work.is_right());
  CHECK(calls["cublasLtMatmul"] == std::ssize(kSizes));
  CHECK(calls["cublasLtMatmulAlgoGetHeuristic"] == std::ssize(kSizes) - 1);  // two have one shape
  CHECK(calls["launch_hopper_products"] == 0);
  CHECK(calls["cudaMalloc"] == 4);                    // a workspace for each stream
  CHECK(tests::the_gpu()->calls("record") == 1 + 3);  // the fork, and the end of each other stream
}

TEST_CASE("Products of 16-bit formats are also added up in fp32") {
  const auto form = GENERATE(Gemm::Form::NN, Gemm::Form::TN);
  const auto dtype = GENERATE(Dtype::Bf16, Dtype::Fp16);
  const OneGpu gpu(7);
  const auto lay = GENERATE(Lay::Aligned, Lay::WideRows);
  SECTION("one by one") {
    const Work work(form, dtype, Dtype::Fp32, lay);
    run(work);
    CHECK(work.is_right());
  }
  SECTION("in one launch on Hopper") {
    const Hopper hopper;
    const Work work(form, dtype, Dtype::Fp32, lay);
    run(work);
    CHECK(work.is_right());
  }
}

TEST_CASE("Products of fp8 are those of the numbers that its bytes are, in bf16") {
  const OneGpu gpu(7);
  auto& calls = tests::library_calls();
  calls.clear();
  const Work work(Gemm::Form::NT, Dtype::Fp8, Dtype::Bf16, Lay::Whole16s);
  run(work);
  CHECK(work.is_right());
  CHECK(calls["fast accumulation"] == std::ssize(kWhole));
  SECTION("but not of sizes that cuBLASLt does not take") {
    const Work wide(Gemm::Form::NT, Dtype::Fp8, Dtype::Bf16, Lay::WideRows);
    Products one = wide.all();
    one.products = one.products.first(1);
    CHECK_THROWS_WITH(run(one), Catch::StartsWith("rank 0: cublasLtMatmulAlgoGetHeuristic of 8 x 16 x 8: "));
  }
}

TEST_CASE("Several products of 16-bit formats are one launch on Hopper, if that is asked for") {
  const OneGpu gpu(7);
  const Hopper hopper;
  auto& calls = tests::library_calls();
  calls.clear();
  SECTION("where addresses and rows are multiples of 16 bytes") {
    const auto form = GENERATE(Gemm::Form::NN, Gemm::Form::NT, Gemm::Form::TN);
    const auto dtype = GENERATE(Dtype::Fp16, Dtype::Bf16);
    const Work work(form, dtype, Lay::WideRows);
    run(work);
    CHECK(work.is_right());
    CHECK(calls["launch_hopper_products"] == 1);
    CHECK(calls["cublasLtMatmul"] == 0);
  }
  SECTION("not otherwise: then one call each") {
    const auto lay = GENERATE(Lay::Aligned, Lay::Unaligned);  // rows of 3 elements, operands at 4 bytes
    const Work work(Gemm::Form::NN, Dtype::Bf16, lay);
    run(work);
    CHECK(work.is_right());
    CHECK(calls["launch_hopper_products"] == 0);
    CHECK(calls["cublasLtMatmul"] == std::ssize(kSizes));
  }
  SECTION("not in fp32") {
    run(Work(Gemm::Form::NN, Dtype::Fp32, Lay::WideRows));
    CHECK(calls["launch_hopper_products"] == 0);
  }
  SECTION("not if they are to be separate") {
    const Work work(Gemm::Form::NN, Dtype::Bf16, Lay::WideRows);
    Products separate = work.all();
    separate.are_separate = true;
    run(separate);
    CHECK(work.is_right());
    CHECK(calls["launch_hopper_products"] == 0);
    CHECK(calls["cublasLtMatmul"] == std::ssize(kWide));
  }
  SECTION("not unless that is asked for") {
    ::unsetenv("MOEPLAN_CUDA_GROUPED");
    run(Work(Gemm::Form::NN, Dtype::Bf16, Lay::WideRows));
    CHECK(calls["launch_hopper_products"] == 0);
  }
  SECTION("not on another GPU") {
    tests::compute_capability() = 10;
    run(Work(Gemm::Form::NN, Dtype::Bf16, Lay::WideRows));
    CHECK(calls["launch_hopper_products"] == 0);
  }
}

TEST_CASE("A single product is one of cuBLASLt") {
  const OneGpu gpu(7);
  auto& calls = tests::library_calls();
  calls.clear();
  const Work work(Gemm::Form::NN, Dtype::Fp32, Lay::Aligned);
  Products one = work.all();
  one.products = one.products.first(1);
  run(one);
  CHECK(calls["cublasLtMatmul"] == 1);
  CHECK(calls["launch_hopper_products"] == 0);
  CHECK(tests::the_gpu()->calls("record") == 0);
}

}  // namespace moeplan::tests::lt_products_test
