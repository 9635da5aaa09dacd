// The products of a training step, priced with the figures of bursts.
//
// Tables of operators are measured with many calls back to back for a few milliseconds. A training step heats the GPU
// until power limits the clock, and its grouped products may run one expert after another.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "model/operators/gemm_model.hpp"
#include "model/operators/grouped_gemm_model.hpp"
#include "model/operators/math_format.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// Factors by which the math of a training step is slower than that of a burst.
struct PhaseFactors {
  double forward = 1, dgrad = 1, wgrad = 1;
  // Of products in fp8 (one scale a tensor), in every phase, read off all rows there are; none: the factors above.
  std::optional<double> fp8;
  [[nodiscard]] double of(GemmPhase phase, MathFormat format) const {
    if (fp8 && format == MathFormat::Fp8) return *fp8;
    if (phase == GemmPhase::Forward) return forward;
    return phase == GemmPhase::Dgrad ? dgrad : wgrad;
  }
  bool operator==(const PhaseFactors&) const = default;
};

/// Whose attention a training step runs, and the factor by which its math is slower than that library's bursts.
struct TrainingAttention {
  std::string library;  // "": not known
  double slowdown = 1;
  bool operator==(const TrainingAttention&) const = default;
};

/// How the kernels of training differ from the bursts of the same file.
struct TrainingModel {
  std::string library;  // rows whose source names it were measured so
  PhaseFactors gemm;    // sustained clocks
  PhaseFactors grouped_gemm;
  TrainingAttention attention, attention_backward;
  [[nodiscard]] const TrainingAttention& attention_of(bool is_backward) const {
    return is_backward ? attention_backward : attention;
  }
  bool operator==(const TrainingModel&) const = default;
};

/// The cost of grouped products that run as single products one after another, over several streams so that only the
/// first launch shows, as Transformer Engine's do. Empty products cost nothing.
[[nodiscard]] GroupedGemmCost separate_products_cost(const GemmModel& model, std::int64_t num_sms,
                                                     std::span<const GemmShape> products, const GemmCall& call = {});

/// The cost of products of which each `sources` one after another have the same right operand, in one kernel where they
/// have equally many rows. Only the first launch shows.
[[nodiscard]] GroupedGemmCost batched_products_cost(const GemmModel& model, std::int64_t num_sms,
                                                    std::span<const GemmShape> products, std::int64_t sources,
                                                    const GemmCall& call = {});

/// Reads the map `training` of a file in configs/operators.
[[nodiscard]] TrainingModel read_training_model(MapReader map);

}  // namespace moeplan
