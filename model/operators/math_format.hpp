// Formats in which matrix products take their operands. A recipe may use several of them in one layer.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace moeplan {

/// Fp8 has one scale per tensor, Fp8Block one per block of 128 values (activations) or 128 x 128 values (weights),
/// Mxfp8 one per 32 values, Nvfp4 one per 16 values.
enum class MathFormat { Fp32, Tf32, Fp16, Bf16, Fp8, Fp8Block, Mxfp8, Nvfp4 };

inline constexpr std::array<std::pair<MathFormat, std::string_view>, 8> kMathFormatNames{
    {{MathFormat::Fp32, "fp32"},
     {MathFormat::Tf32, "tf32"},
     {MathFormat::Fp16, "fp16"},
     {MathFormat::Bf16, "bf16"},
     {MathFormat::Fp8, "fp8"},
     {MathFormat::Fp8Block, "fp8_block"},
     {MathFormat::Mxfp8, "mxfp8"},
     {MathFormat::Nvfp4, "nvfp4"}}};

/// Bytes of one operand element, with its share of the scales that the product reads.
[[nodiscard]] constexpr double operand_bytes(MathFormat format) {
  switch (format) {
    case MathFormat::Fp32:
    case MathFormat::Tf32: return 4;
    case MathFormat::Fp16:
    case MathFormat::Bf16: return 2;
    case MathFormat::Fp8:
    case MathFormat::Fp8Block: return 1;  // their scales are less than 4 % of the bytes
    case MathFormat::Mxfp8: return 1 + 1.0 / 32;
    case MathFormat::Nvfp4: return 0.5 + 1.0 / 16;
  }
  return 0;
}

/// Bytes of a result's element: results are bf16 whatever the operands are.
inline constexpr double kResultBytes = 2;

/// Bytes that a weight gradient's element moves: the fp32 main gradient is read and written.
inline constexpr double kAccumulatedBytes = 8;

}  // namespace moeplan
