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

/// Formats that are used to send rows but not to compute: rounding to fp16; int8 with a scale (and a zero point) per
/// row; zfp in fixed-rate mode with one-dimensional blocks along a row.
enum class WireFormat { Fp16, Int8, Zfp };

inline constexpr std::array<std::pair<WireFormat, std::string_view>, 3> kWireFormatNames{
    {{WireFormat::Fp16, "fp16"}, {WireFormat::Int8, "int8"}, {WireFormat::Zfp, "zfp"}}};

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
