// The element formats of buffers: loading as fp32, and storing rounded to nearest, ties to even. The bits are those of
// reference/number_formats.hpp, on a GPU, which has instructions for it, and on a CPU; but for the bits of a NaN.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda_runtime/kernels/team.hpp"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace moeplan::kernels {

/// The format of an element. Bytes: encoded data, interpreted by codecs only.
enum class Format : std::int32_t { Fp32, Fp16, Bf16, Bytes };

MOEPLAN_BOTH constexpr std::int64_t size_of(Format format) {
  return format == Format::Fp32 ? 4 : format == Format::Bytes ? 1 : 2;
}

MOEPLAN_BOTH inline std::uint32_t bits_of(float value) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(value);
#else
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
#endif
}
MOEPLAN_BOTH inline float float_of(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
#endif
}

MOEPLAN_BOTH inline std::uint16_t bf16_of(float value) {
#if defined(__CUDA_ARCH__)
  return __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
  const std::uint32_t bits = bits_of(value);
  if (value != value) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
#endif
}
MOEPLAN_BOTH inline float from_bf16(std::uint16_t bits) { return float_of(static_cast<std::uint32_t>(bits) << 16U); }

MOEPLAN_BOTH inline std::uint16_t fp16_of(float value) {
#if defined(__CUDA_ARCH__)
  return __half_as_ushort(__float2half_rn(value));
#else
  const std::uint32_t bits = bits_of(value), sign = (bits >> 16U) & 0x8000U, magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint16_t>(sign | 0x7e00U);   // not a number
  if (magnitude >= 0x477ff000U) return static_cast<std::uint16_t>(sign | 0x7c00U);  // 65520 and above
  if (magnitude < 0x33000000U) return static_cast<std::uint16_t>(sign);             // less than 2^-25
  // 11 bits of the significand remain, fewer below 2^-14, where all numbers are multiples of 2^-24.
  const std::uint32_t exponent = magnitude >> 23U;
  const std::uint32_t dropped = exponent < 113U ? 126U - exponent : 13U;
  const std::uint32_t significand = (magnitude & 0x7fffffU) | 0x800000U;
  std::uint32_t kept = significand >> dropped;
  const std::uint32_t rest = significand & ((1U << dropped) - 1U), half = 1U << (dropped - 1U);
  if (rest > half || (rest == half && (kept & 1U) != 0)) ++kept;
  const std::uint32_t biased = exponent < 113U ? 0 : (exponent - 113U) << 10U;
  return static_cast<std::uint16_t>(sign | (biased + kept));
#endif
}
MOEPLAN_BOTH inline float from_fp16(std::uint16_t bits) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(bits));
#else
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U, fraction = bits & 0x3ffU;
  const std::uint32_t exponent = (bits >> 10U) & 0x1fU;
  if (exponent == 31U) return float_of(sign | 0x7f800000U | (fraction << 13U));
  if (exponent == 0U) {
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -value : value;
  }
  return float_of(sign | ((exponent + 112U) << 23U) | (fraction << 13U));
#endif
}

/// E4M3, computed by the same instructions on both: codecs alone store it. Magnitudes above 448 become 448.
MOEPLAN_BOTH inline std::uint8_t fp8_of(float value) {
  const std::uint32_t bits = bits_of(value), sign = (bits >> 24U) & 0x80U;
  std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint8_t>(sign | 0x7fU);  // not a number
  if (magnitude > 0x43e00000U) magnitude = 0x43e00000U;                         // 448
  if (magnitude < 0x3c800000U) {                                                // below 2^-6: multiples of 2^-9
    return static_cast<std::uint8_t>(sign | static_cast<std::uint32_t>(rintf(float_of(magnitude) * 512.0F)));
  }
  // Four bits of the significand remain; the exponent's bias falls from 127 to 7.
  const std::uint32_t rounded = magnitude + 0x7ffffU + ((magnitude >> 20U) & 1U);
  return static_cast<std::uint8_t>(sign | ((rounded >> 20U) - (120U << 3U)));
}
MOEPLAN_BOTH inline float from_fp8(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24U, magnitude = bits & 0x7fU;
  if (magnitude == 0x7fU) return float_of(sign | 0x7fc00000U);
  if (magnitude < 8U) {
    const float value = static_cast<float>(magnitude) * 0x1p-9F;
    return sign != 0 ? -value : value;
  }
  return float_of(sign | ((magnitude + (120U << 3U)) << 20U));
}

/// Words of 2 and 16 bytes, loaded and stored in one access; they may alias objects of any type.
typedef std::uint16_t __attribute__((may_alias)) Word2;
struct __attribute__((may_alias, aligned(16))) Word16 {
  std::uint32_t part[4];
};

MOEPLAN_BOTH inline float load1(Format format, const void* data, std::int64_t i) {
  if (format == Format::Fp32) return static_cast<const float*>(data)[i];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[i];
  return format == Format::Bf16 ? from_bf16(bits) : from_fp16(bits);
}
MOEPLAN_BOTH inline void store1(Format format, void* data, std::int64_t i, float value) {
  if (format == Format::Fp32) {
    static_cast<float*>(data)[i] = value;
  } else {
    static_cast<std::uint16_t*>(data)[i] = format == Format::Bf16 ? bf16_of(value) : fp16_of(value);
  }
}

/// Loads elements i to i + count - 1. `count` is 8, with element i aligned to 16 bytes, or 1.
MOEPLAN_BOTH inline void load(Format format, const void* data, std::int64_t i, int count, float (&values)[8]) {
  if (count == 1) {
    values[0] = load1(format, data, i);
    return;
  }
  const Word16* words = reinterpret_cast<const Word16*>(static_cast<const char*>(data) + i * size_of(format));
  if (format == Format::Fp32) {
    const Word16 low = words[0], high = words[1];
    for (int j = 0; j < 4; ++j) {
      values[j] = float_of(low.part[j]);
      values[4 + j] = float_of(high.part[j]);
    }
    return;
  }
  const Word16 word = words[0];
  for (int j = 0; j < 8; ++j) {
    const auto bits = static_cast<std::uint16_t>(word.part[j / 2] >> (j % 2 == 0 ? 0U : 16U));
    values[j] = format == Format::Bf16 ? from_bf16(bits) : from_fp16(bits);
  }
}
MOEPLAN_BOTH inline void store(Format format, void* data, std::int64_t i, int count, const float (&values)[8]) {
  if (count == 1) {
    store1(format, data, i, values[0]);
    return;
  }
  Word16* words = reinterpret_cast<Word16*>(static_cast<char*>(data) + i * size_of(format));
  Word16 low, high;
  if (format == Format::Fp32) {
    for (int j = 0; j < 4; ++j) {
      low.part[j] = bits_of(values[j]);
      high.part[j] = bits_of(values[4 + j]);
    }
    words[0] = low;
    words[1] = high;
    return;
  }
  for (int j = 0; j < 4; ++j) {
    const std::uint32_t a = format == Format::Bf16 ? bf16_of(values[2 * j]) : fp16_of(values[2 * j]);
    const std::uint32_t b = format == Format::Bf16 ? bf16_of(values[2 * j + 1]) : fp16_of(values[2 * j + 1]);
    low.part[j] = a | (b << 16U);
  }
  words[0] = low;
}

}  // namespace moeplan::kernels
