// Recipes of mixed precision: the formats in which a training step multiplies the operands of its linear layers.
//
// A recipe quantises the inputs of a linear layer, and the gradients of its outputs, from the 16-bit format of the
// workload: once in rows (forward, input gradients) and once in columns (weight gradients), by kernels of their own.
// The copies in columns are kept for backward instead of the 16-bit inputs. Attention itself, norms, the router, the
// embedding, the output head, residuals and messages stay in 16 bits, results too, but for rows that a codec sends
// (WireFormat); weight gradients are added up in fp32. Quantised weights are assumed to be kept for the whole step. As
// Transformer Engine's recipes.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "model/operators/math_format.hpp"

namespace moeplan {

/// Fp8Delayed takes the scale of a tensor from earlier steps; Fp8Current from the tensor itself, which another kernel
/// reads first; Fp8Block and Mxfp8 have scales for blocks (math_format.hpp).
enum class Precision { Fp8Delayed, Fp8Current, Fp8Block, Mxfp8 };

inline constexpr std::array<std::pair<Precision, std::string_view>, 4> kPrecisionNames{
    {{Precision::Fp8Delayed, "fp8_delayed"},
     {Precision::Fp8Current, "fp8_current"},
     {Precision::Fp8Block, "fp8_block"},
     {Precision::Mxfp8, "mxfp8"}}};

/// The format of the quantised operands.
[[nodiscard]] constexpr MathFormat format_of(Precision precision) {
  switch (precision) {
    case Precision::Fp8Delayed:
    case Precision::Fp8Current: return MathFormat::Fp8;
    case Precision::Fp8Block: return MathFormat::Fp8Block;
    case Precision::Mxfp8: return MathFormat::Mxfp8;
  }
  return MathFormat::Bf16;
}

}  // namespace moeplan
