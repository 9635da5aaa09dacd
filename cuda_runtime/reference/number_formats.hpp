// The number formats of buffers, as rounded values and as bits. Rounding is to nearest, ties to even, as in hardware;
// values beyond the largest finite number become infinite.
#pragma once

#include <cstdint>

#include "model/machine/dtype.hpp"

namespace moeplan::runtime {

/// IEEE 754 binary16: 11 bits of precision, range 6e-8 to 65504.
[[nodiscard]] std::uint16_t to_fp16(float value);
[[nodiscard]] float from_fp16(std::uint16_t bits);

/// bfloat16, the upper half of a binary32: 8 bits of precision.
[[nodiscard]] std::uint16_t to_bf16(float value);
[[nodiscard]] float from_bf16(std::uint16_t bits);

/// E4M3 of the OCP 8-bit floating point specification: 4 bits of precision, range 2^-9 to 448, no infinities. Larger
/// magnitudes become 448; not a number stays that.
inline constexpr float kLargestFp8 = 448;
[[nodiscard]] std::uint8_t to_fp8(float value);
[[nodiscard]] float from_fp8(std::uint8_t bits);

/// The nearest number of fp32, tf32 (stored as fp32), fp16 or bf16. Other formats need a scale and fail an assertion.
[[nodiscard]] double rounded_to(Dtype dtype, double value);

/// Half the distance between 1 and the next number: the largest relative error of one rounding.
[[nodiscard]] double unit_roundoff(Dtype dtype);

}  // namespace moeplan::runtime
