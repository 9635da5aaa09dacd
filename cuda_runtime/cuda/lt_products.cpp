#include "cuda_runtime/cuda/lt_products.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda_runtime/cuda/check.hpp"
#include "cuda_runtime/cuda/grouped_products.hpp"
#include "cuda_runtime/cuda/product_types.hpp"

namespace moeplan::runtime {

namespace {

/// Workspace bytes per stream: NVIDIA's recommendation for Hopper (cuBLAS documentation, cublasSetWorkspace), 32 MiB,
/// which exceeds that for earlier GPUs.
constexpr std::size_t kWorkspace = std::size_t{32} << 20U;

/// Streams for concurrent products, as in Transformer Engine's multi_stream_cublas_gemm (4).
constexpr std::size_t kLanes = 4;

/// The alignment of an address in bytes, up to the 16 bytes that cuBLASLt distinguishes.
std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (std::uint32_t a = 16; a > 1; a /= 2) {
    if (address % a == 0) return a;
  }
  return 1;
}

class Layout {
 public:
  /// A dense column-major layout.
  Layout(int type, std::int64_t rows, std::int64_t columns, RankId rank) {
    check_cublas(
        cublasLtMatrixLayoutCreate(&layout_, static_cast<cudaDataType_t>(type), static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), rows),
        rank, "cublasLtMatrixLayoutCreate");
  }
  ~Layout() { (void)cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  [[nodiscard]] cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

/// A product's description and the algorithm selected by the heuristic.
struct Shape {
  cublasLtMatmulDesc_t description = nullptr;
  Layout first, second, out;
  cublasLtMatmulAlgo_t algorithm{};

  Shape(cublasLtHandle_t handle, Gemm::Form form, const ProductTypes& types, const MatrixProduct& p,
        const std::array<std::uint32_t, 3>& alignments, std::int32_t multiprocessors, RankId rank)
      : first(types.data, form == Gemm::Form::NT ? p.k : p.n, form == Gemm::Form::NT ? p.n : p.k, rank),
        second(types.data, form == Gemm::Form::TN ? p.m : p.k, form == Gemm::Form::TN ? p.k : p.m, rank),
        out(types.result, p.n, p.m, rank) {
    const auto compute = static_cast<cublasComputeType_t>(types.compute);
    check_cublas(cublasLtMatmulDescCreate(&description, compute, CUDA_R_32F), rank, "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, static_cast<cublasOperation_t>(types.first), rank);
    set(CUBLASLT_MATMUL_DESC_TRANSB, static_cast<cublasOperation_t>(types.second), rank);
    if (types.accumulates_fast) set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1}, rank);
    if (multiprocessors > 0) set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, multiprocessors, rank);
    choose(handle, p, alignments, rank);
  }
  ~Shape() { (void)cublasLtMatmulDescDestroy(description); }
  Shape(const Shape&) = delete;
  Shape& operator=(const Shape&) = delete;

 private:
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value value, RankId rank) const {
    check_cublas(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value), rank,
                 "cublasLtMatmulDescSetAttribute");
  }

  void choose(cublasLtHandle_t handle, const MatrixProduct& p, const std::array<std::uint32_t, 3>& alignments,
              RankId rank) {
    cublasLtMatmulPreference_t preference = nullptr;
    check_cublas(cublasLtMatmulPreferenceCreate(&preference), rank, "cublasLtMatmulPreferenceCreate");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check_cublas(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value), rank,
                   "cublasLtMatmulPreferenceSetAttribute");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments[1]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments[0]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments[2]);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments[2]);
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle, description, first.get(), second.get(),
                                                                 out.get(), out.get(), preference, 1, &found, &count);
    (void)cublasLtMatmulPreferenceDestroy(preference);
    const std::string call = fmt::format("cublasLtMatmulAlgoGetHeuristic of {} x {} x {}", p.m, p.n, p.k);
    check_cublas(status, rank, call.c_str());
    check_cublas(count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED, rank, call.c_str());
    algorithm = found.algo;
  }
};

using Key =
    std::tuple<Gemm::Form, Dtype, Dtype, std::int64_t, std::int64_t, std::int64_t, std::array<std::uint32_t, 3>>;

/// Side streams of a stream, which fork from it and join it.
class Lanes {
 public:
  Lanes(cudaStream_t of, const LtProducts::StreamMaker& make_stream, RankId rank) : rank_(rank) {
    streams_.front() = of;
    for (std::size_t i = 1; i < kLanes; ++i) streams_[i] = make_stream(of);
    for (cudaEvent_t& event : events_) {
      check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), rank, "cudaEventCreateWithFlags");
    }
  }
  ~Lanes() {
    for (std::size_t i = 1; i < kLanes; ++i) (void)cudaStreamDestroy(streams_[i]);
    for (cudaEvent_t event : events_) (void)cudaEventDestroy(event);
  }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  [[nodiscard]] cudaStream_t stream(std::size_t lane) const { return streams_[lane]; }
  void fork(std::size_t lanes) const {
    record(0, 0);
    for (std::size_t i = 1; i < lanes; ++i) wait(i, 0);
  }
  void join(std::size_t lanes) const {
    for (std::size_t i = 1; i < lanes; ++i) {
      record(i, i);
      wait(0, i);
    }
  }

 private:
  void record(std::size_t event, std::size_t lane) const {
    check_cuda(cudaEventRecordWithFlags(events_[event], streams_[lane], cudaEventRecordDefault), rank_,
               "cudaEventRecordWithFlags");
  }
  void wait(std::size_t lane, std::size_t event) const {
    check_cuda(cudaStreamWaitEvent(streams_[lane], events_[event], 0), rank_, "cudaStreamWaitEvent");
  }

  RankId rank_;
  std::array<cudaStream_t, kLanes> streams_{};
  std::array<cudaEvent_t, kLanes> events_{};  // of the fork, and of the end of each other lane
};

/// The lane of each product: the one with the least work so far.
std::vector<std::size_t> lanes_of(std::span<const MatrixProduct> products) {
  std::array<double, kLanes> load{};
  std::vector<std::size_t> out;
  for (const MatrixProduct& p : products) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    out.push_back(static_cast<std::size_t>(least - load.begin()));
  }
  return out;
}

}  // namespace

struct LtProducts::State {
  RankId rank;
  cublasLtHandle_t handle = nullptr;
  std::map<Key, Shape> shapes;
  std::map<cudaStream_t, void*> workspaces;
  std::map<cudaStream_t, Lanes> lanes;
  GroupedProducts grouped;
  std::int32_t multiprocessors;
  StreamMaker make_stream;

  State(RankId of, std::int64_t of_part, StreamMaker maker)
      : rank(of),
        grouped(of, of_part),
        multiprocessors(static_cast<std::int32_t>(of_part)),
        make_stream(std::move(maker)) {
    check_cublas(cublasLtCreate(&handle), rank, "cublasLtCreate");
  }
  ~State() {
    for (const auto& [stream, memory] : workspaces) (void)cudaFree(memory);
    shapes.clear();
    (void)cublasLtDestroy(handle);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const Shape& shape_of(const Products& all, const MatrixProduct& p) {
    const std::array<std::uint32_t, 3> alignments{alignment_of(p.a), alignment_of(p.b), alignment_of(p.c)};
    return shapes
        .try_emplace(Key{all.form, all.dtype, all.result, p.m, p.n, p.k, alignments}, handle, all.form,
                     product_types(all.form, all.dtype, all.result), p, alignments, multiprocessors, rank)
        .first->second;
  }

  void* workspace_of(cudaStream_t stream) {
    void*& memory = workspaces[stream];
    if (memory == nullptr) check_cuda(cudaMalloc(&memory, kWorkspace), rank, "cudaMalloc of a workspace");
    return memory;
  }

  void multiply(const Products& all, const MatrixProduct& p, cudaStream_t stream) {
    const Shape& shape = shape_of(all, p);
    const float alpha = 1, beta = p.accumulates ? 1.0F : 0.0F;
    check_cublas(cublasLtMatmul(handle, shape.description, &alpha, p.b, shape.first.get(), p.a, shape.second.get(),
                                &beta, p.c, shape.out.get(), p.c, shape.out.get(), &shape.algorithm,
                                workspace_of(stream), kWorkspace, stream),
                 rank, "cublasLtMatmul");
  }

  void multiply_on_lanes(const Products& all, cudaStream_t stream) {
    const Lanes& side = lanes.try_emplace(stream, stream, make_stream, rank).first->second;
    const std::vector<std::size_t> lane = lanes_of(all.products);
    const std::size_t used = *std::max_element(lane.begin(), lane.end()) + 1;
    side.fork(used);
    for (std::size_t i = 0; i < lane.size(); ++i) {
      multiply(all, all.products[i], side.stream(lane[i]));
    }
    side.join(used);
  }
};

LtProducts::LtProducts(RankId rank, std::int64_t multiprocessors, StreamMaker make_stream)
    : state_(std::make_unique<State>(rank, multiprocessors, std::move(make_stream))) {}
LtProducts::~LtProducts() = default;

void LtProducts::run(const Products& products, CUstream_st* stream) {
  if (products.products.size() < 2) {
    for (const MatrixProduct& p : products.products) state_->multiply(products, p, stream);
    return;
  }
  if (!products.are_separate && state_->grouped.run(products, stream)) return;
  state_->multiply_on_lanes(products, stream);
}

}  // namespace moeplan::runtime
