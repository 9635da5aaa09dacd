// The time of a grouped product, one product for each expert of a GPU in a single kernel: output tiles of all experts
// over SMs, the loop over k, operand tiles through L2, and the weights through HBM. docs/operators.md derives it and
// lists the fitted numbers.
//
//   time = launch + (math^q + memory^q)^(1/q), minimised over tile shapes
//
//   math   = waves x (mean over tiles of the loop over k + tile_start x area + tile)
//   memory = (weights + rows + results) / memory, at the share of the SMs that have a tile
//
// Kernels that the library issues one after another (Transformer Engine) are not grouped: their times are those of
// gemm_cost, and only the first launch is not hidden.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/base/quantity.hpp"
#include "model/operators/gemm_call.hpp"
#include "model/operators/gemm_shape.hpp"
#include "model/operators/math_format.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// Experts with equal numbers of rows. Numbers may be expectations, so they need not be whole.
struct ExpertLoad {
  double rows = 0;
  double experts = 1;
  bool operator==(const ExpertLoad&) const = default;
};

/// The numbers of a GPU's grouped products in one format with one library.
struct GroupedGemmModel {
  MathFormat format = MathFormat::Bf16;
  std::string library;
  // How the kernel divides the work: not fitted.
  bool pairs_sms = false;        // two SMs share a tile, up to 256 x 256
  std::int64_t most_rows = 256;  // of a tile
  // Fitted.
  Seconds launch;         // of one kernel; 0 where a fused layer counts it
  FlopsPerSecond math;    // all SMs in full tiles, before power limits the clock
  double power = 0;       // exponent: calls above 3e11 FLOPs slow down by (FLOPs / 3e11)^power
  BytesPerSecond memory;  // HBM rate at which weights and rows are read and results are written
  BytesPerSecond l2;      // rate at which all SMs together fill shared memory with operands
  Seconds tile_start;     // start and end of a tile of 128 x 256, in proportion to its area
  Seconds tile;           // of a tile, whatever its size: scheduling, the latency of its first loads and last stores
  Seconds k_step;         // least time of a step of 128 bytes of k
  double wgrad = 1;       // factor on the math of weight gradients; other than 1: read off all their rows
  double unaligned = 1;   // factor on products with rows of k that are not a multiple of 16 bytes
  bool fits_all = false;  // fitted to all rows, too few to hold any out
  bool operator==(const GroupedGemmModel&) const = default;
};

/// The time of a grouped product, and how it comes about.
struct GroupedGemmCost {
  Seconds launch, math, memory, overlapped;
  std::int64_t tile_rows = 0, tile_columns = 0;  // of the last product if they run one after another
  [[nodiscard]] Seconds time() const { return launch + overlapped; }
  /// "launch", "math" or "memory": the longest part.
  [[nodiscard]] std::string_view bound() const;
};

/// The cost of rows x n outputs with k terms for every expert; of weight gradients: k x n outputs with as many terms as
/// rows. Experts without rows cost nothing.
[[nodiscard]] GroupedGemmCost grouped_gemm_cost(const GroupedGemmModel& model, std::int64_t num_sms,
                                                std::span<const ExpertLoad> loads, std::int64_t n, std::int64_t k,
                                                const GemmCall& call = {});

/// The cost of the products of the local experts, one shape for each. They share n; m varies (forward, dgrad) or k does
/// (wgrad). Does not allocate.
[[nodiscard]] GroupedGemmCost grouped_gemm_cost(const GroupedGemmModel& model, std::int64_t num_sms,
                                                std::span<const GemmShape> products, const GemmCall& call = {});

/// Reads one entry of the list `grouped_gemm` of a file in configs/operators.
[[nodiscard]] GroupedGemmModel read_grouped_gemm_model(MapReader entry);

}  // namespace moeplan
