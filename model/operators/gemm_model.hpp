// The time of one matrix product from its shape: output tiles over SMs, the loop over k, traffic through L2 and HBM,
// split-k, and clocks under sustained power. docs/operators.md derives it and lists the fitted numbers.
//
//   time = launch + quantisation + (math^3 + memory^3)^(1/3) + [split-k] + [scale padding]
//
// minimised over tile shapes and numbers of k splits, as a library that chooses well would.
//
//   math   = waves x (max(tile FLOPs / SM rate, tile operands / SM share of L2) + k steps x k_step + start x area)
//   memory = operands / (read x residency) + results / write, at the share of the SMs that have a tile
//
// Weight gradients read and write their results in fp32. Sustained clocks slow down the math.
//
// Sizes count every operand once from HBM. Nothing here depends on data: libraries run faster on zeros.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/quantity.hpp"
#include "model/operators/gemm_call.hpp"
#include "model/operators/gemm_shape.hpp"
#include "model/operators/math_format.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// The numbers of a GPU's matrix products in one format with one library.
struct GemmModel {
  MathFormat format = MathFormat::Bf16;
  std::string library;         // whose kernels were measured: "trtllm", ...
  Seconds launch;              // of one kernel, back to back in a graph
  FlopsPerSecond math;         // all SMs in full tiles, before power limits the clock
  double power = 0;            // exponent: products above 3e11 FLOPs slow down by (FLOPs / 3e11)^power
  BytesPerSecond read, write;  // HBM rates at which operands are read and results are written
  std::optional<BytesPerSecond> accumulate = {};  // at which sums of weight gradients are; none: as `write`
  BytesPerSecond l2;                              // rate at which all SMs together fill shared memory with operands
  double residency = 0;          // read rate gained by operands that are far smaller than 18 MB and stay in L2
  Seconds tile_start;            // start and end of a tile of 128 x 256: filling the pipeline, storing the result
  Seconds k_step;                // latency of a step of 64 values of k that more SMs cannot shorten
  std::optional<Seconds> split;  // reduction of partial sums if k is split; none: the library never splits it
  BytesPerSecond quantise{};  // rate at which the left operand is read in 16 bits and written in 8; 0: not in the time
  Seconds scale_padding;      // extra kernel if the scales of an odd number of rows (not a multiple of 4) are copied
  double wgrad = 1;           // factor on the math of weight gradients; other than 1: read off all their rows
  bool operator==(const GemmModel&) const = default;
};

/// The time of a product, and how it comes about.
struct GemmCost {
  Seconds launch, quantisation, math, memory, overlapped, extra;  // extra: split-k and scale padding
  std::int64_t tile_rows = 0, tile_columns = 0, splits = 1;
  [[nodiscard]] Seconds time() const { return launch + quantisation + overlapped + extra; }
  /// "launch", "quantisation", "math" or "memory": the longest part.
  [[nodiscard]] std::string_view bound() const;
  bool operator==(const GemmCost&) const = default;
};

/// The cost of C[m,n] = A[m,k] B[k,n] on a GPU of `num_sms` SMs. A is the operand that is quantised.
[[nodiscard]] GemmCost gemm_cost(const GemmModel& model, std::int64_t num_sms, const GemmShape& shape,
                                 const GemmCall& call = {});

/// The cost of `batch` products of this shape in one kernel, with the same B: those of an expert with its rows from
/// each source ([Tutel] sec. 4.2; a strided batch whose B has a stride of zero). Their tiles share the SMs, and B is
/// read once from HBM.
[[nodiscard]] GemmCost batched_gemm_cost(const GemmModel& model, std::int64_t num_sms, const GemmShape& shape,
                                         std::int64_t batch, const GemmCall& call = {});

/// Reads one entry of the list `gemm` of a file in configs/operators.
[[nodiscard]] GemmModel read_gemm_model(MapReader entry);

}  // namespace moeplan
