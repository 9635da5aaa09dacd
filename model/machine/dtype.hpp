// Number formats of computation (Dtype) and of transfer (WireFormat).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "model/text/reader.hpp"

namespace moeplan {

enum class Dtype { Fp32, Tf32, Fp16, Bf16, Fp8, Int8 };

inline constexpr std::array<std::pair<Dtype, std::string_view>, 6> kDtypeNames{{{Dtype::Fp32, "fp32"},
                                                                                {Dtype::Tf32, "tf32"},
                                                                                {Dtype::Fp16, "fp16"},
                                                                                {Dtype::Bf16, "bf16"},
                                                                                {Dtype::Fp8, "fp8"},
                                                                                {Dtype::Int8, "int8"}}};

/// Formats in which rows are sent: rounding to fp16; int8 with a scale (and a zero point) per row; fp8 (E4M3) with a
/// scale per block of a row, in which a recipe of mixed precision also multiplies; zfp in fixed-rate mode with
/// one-dimensional blocks along a row.
enum class WireFormat { Fp16, Int8, Fp8Block, Zfp };

inline constexpr std::array<std::pair<WireFormat, std::string_view>, 4> kWireFormatNames{
    {{WireFormat::Fp16, "fp16"},
     {WireFormat::Int8, "int8"},
     {WireFormat::Fp8Block, "fp8_block"},
     {WireFormat::Zfp, "zfp"}}};

/// Consecutive values of a row that share a scale in WireFormat::Fp8Block ([DeepSeek-V3] sec. 3.3.2).
inline constexpr std::int64_t kFp8Block = 128;

/// Bytes of one element in memory (tf32 is stored as fp32).
[[nodiscard]] constexpr std::int64_t size_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::Fp32:
    case Dtype::Tf32: return 4;
    case Dtype::Fp16:
    case Dtype::Bf16: return 2;
    case Dtype::Fp8:
    case Dtype::Int8: return 1;
  }
  return 0;
}

}  // namespace moeplan
