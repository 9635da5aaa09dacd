// The number formats of buffers, as rounding of a value and as bits. To nearest, ties to even, as hardware does it;
// beyond the largest finite number lies infinity.
#pragma once

#include <cstdint>

#include "model/machine/dtype.hpp"

namespace moeplan::runtime {

/// IEEE 754 binary16: 11 bits of precision, 6e-8 to 65504.
[[nodiscard]] std::uint16_t to_fp16(float value);
[[nodiscard]] float from_fp16(std::uint16_t bits);

/// The upper half of a binary32: 8 bits of precision.
[[nodiscard]] std::uint16_t to_bf16(float value);
[[nodiscard]] float from_bf16(std::uint16_t bits);

/// The nearest number of fp32, tf32 (stored as fp32), fp16 or bf16. The others have scales of their own: an assertion.
[[nodiscard]] double rounded_to(Dtype dtype, double value);

/// Half the distance between 1 and the next number: the largest relative error of one rounding.
[[nodiscard]] double unit_roundoff(Dtype dtype);

}  // namespace moeplan::runtime
