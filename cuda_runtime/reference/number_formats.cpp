#include "cuda_runtime/reference/number_formats.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <limits>

namespace moeplan::runtime {

namespace {

struct Format {
  int precision;   // bits of the significand, including the implicit one
  int least;       // exponent of the smallest normal number
  double largest;  // finite
};

constexpr Format kFp16{11, -14, 65504.0};
constexpr Format kBf16{8, -126, 3.3895313892515355e38};
constexpr Format kFp8{4, -6, static_cast<double>(kLargestFp8)};
constexpr Format kFp32{24, -126, 3.4028234663852886e38};

Format format_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::Fp32:
    case Dtype::Tf32: return kFp32;
    case Dtype::Fp16: return kFp16;
    case Dtype::Bf16: return kBf16;
    case Dtype::Fp8:
    case Dtype::Int8: break;
  }
  assert(false && "a format that needs a scale");
  return kFp32;
}

/// Exact for doubles: scales the significand to an integer, rounds it, and scales it back.
double rounded(const Format& format, double value) {
  if (!std::isfinite(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), format.least);
  const int shift = format.precision - 1 - exponent;
  const double near = std::ldexp(std::nearbyint(std::ldexp(value, shift)), -shift);
  return std::abs(near) > format.largest ? std::copysign(std::numeric_limits<double>::infinity(), value) : near;
}

// The bits of a number that is not negative, without its sign: the biased exponent, then the significand without its
// leading one. Subnormal numbers are multiples of 2^(least - precision + 1), normal ones 2^(precision - 1) to
// 2^precision - 1 times 2^(exponent - precision + 1).

/// Of a finite number of the format.
std::uint32_t bits_of(const Format& format, double number) {
  const int fraction_bits = format.precision - 1;
  const int exponent = number < std::ldexp(1.0, format.least) ? format.least : std::ilogb(number);
  const auto significand = static_cast<std::uint32_t>(std::ldexp(number, fraction_bits - exponent));
  return (static_cast<std::uint32_t>(exponent - format.least) << fraction_bits) + significand;
}

float number_of(const Format& format, std::uint32_t bits) {
  const int fraction_bits = format.precision - 1;
  const std::uint32_t exponent = bits >> fraction_bits, one = 1U << fraction_bits, fraction = bits & (one - 1);
  const int step = format.least - fraction_bits;  // of subnormal numbers and of the smallest normal ones
  if (exponent == 0) return std::ldexp(static_cast<float>(fraction), step);
  return std::ldexp(static_cast<float>(one + fraction), step + static_cast<int>(exponent) - 1);
}

}  // namespace

std::uint16_t to_fp16(float value) {
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(value) >> 16U) & 0x8000U;
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7e00U);
  const double near = std::abs(rounded(kFp16, static_cast<double>(value)));
  if (std::isinf(near)) return static_cast<std::uint16_t>(sign | 0x7c00U);
  return static_cast<std::uint16_t>(sign | bits_of(kFp16, near));
}

float from_fp16(std::uint16_t bits) {
  const float sign = (bits & 0x8000U) != 0 ? -1.0F : 1.0F;
  if ((bits & 0x7c00U) == 0x7c00U) {
    return (bits & 0x3ffU) > 0 ? std::numeric_limits<float>::quiet_NaN()
                               : sign * std::numeric_limits<float>::infinity();
  }
  return sign * number_of(kFp16, bits & 0x7fffU);
}

std::uint16_t to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }

std::uint8_t to_fp8(float value) {
  const std::uint32_t sign = std::signbit(value) ? 0x80U : 0U;
  if (std::isnan(value)) return static_cast<std::uint8_t>(sign | 0x7fU);
  const double near = std::min(std::abs(rounded(kFp8, static_cast<double>(value))), kFp8.largest);
  return static_cast<std::uint8_t>(sign | bits_of(kFp8, near));
}

float from_fp8(std::uint8_t bits) {
  const float sign = (bits & 0x80U) != 0 ? -1.0F : 1.0F;
  if ((bits & 0x7fU) == 0x7fU) return std::numeric_limits<float>::quiet_NaN();
  return sign * number_of(kFp8, bits & 0x7fU);
}

double rounded_to(Dtype dtype, double value) { return rounded(format_of(dtype), value); }

double unit_roundoff(Dtype dtype) { return std::ldexp(1.0, -format_of(dtype).precision); }

}  // namespace moeplan::runtime
