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

/// Two numbers of a 16-bit format, the first in the lower half; on a GPU in one instruction.
MOEPLAN_BOTH inline std::uint32_t two_of(Format format, float a, float b) {
#if defined(__CUDA_ARCH__)
  if (format == Format::Bf16) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(a, b);
    return static_cast<std::uint32_t>(__bfloat16_as_ushort(both.x)) |
           static_cast<std::uint32_t>(__bfloat16_as_ushort(both.y)) << 16U;
  }
#endif
  const std::uint32_t low = format == Format::Bf16 ? bf16_of(a) : fp16_of(a);
  const std::uint32_t high = format == Format::Bf16 ? bf16_of(b) : fp16_of(b);
  return low | (high << 16U);
}

/// E4M3, with the same bits on both, but for the sign of a NaN: codecs alone store it. Magnitudes above 448 become 448.
/// GPUs have instructions for it since compute capability 8.9.
MOEPLAN_BOTH inline std::uint8_t fp8_of(float value) {
  const std::uint32_t bits = bits_of(value), sign = (bits >> 24U) & 0x80U;
  std::uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<std::uint8_t>(sign | 0x7fU);  // not a number
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0F), "f"(value));
  return static_cast<std::uint8_t>(pair);
#endif
  if (magnitude > 0x43e00000U) magnitude = 0x43e00000U;  // 448
  if (magnitude < 0x3c800000U) {                         // below 2^-6: multiples of 2^-9
    return static_cast<std::uint8_t>(sign | static_cast<std::uint32_t>(rintf(float_of(magnitude) * 512.0F)));
  }
  // Four bits of the significand remain; the exponent's bias falls from 127 to 7.
  const std::uint32_t rounded = magnitude + 0x7ffffU + ((magnitude >> 20U) & 1U);
  return static_cast<std::uint8_t>(sign | ((rounded >> 20U) - (120U << 3U)));
}
MOEPLAN_BOTH inline float from_fp8(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24U, magnitude = bits & 0x7fU;
  if (magnitude == 0x7fU) return float_of(sign | 0x7fc00000U);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint32_t pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<std::uint16_t>(bits)));
  return from_fp16(static_cast<std::uint16_t>(pair));  // every value of E4M3 is one of fp16
#endif
  if (magnitude < 8U) {
    const float value = static_cast<float>(magnitude) * 0x1p-9F;
    return sign != 0 ? -value : value;
  }
  return float_of(sign | ((magnitude + (120U << 3U)) << 20U));
}

/// Words of 2, 8 and 16 bytes, loaded and stored in one access; they may alias objects of any type.
typedef std::uint16_t __attribute__((may_alias)) Word2;
struct __attribute__((may_alias, aligned(8))) Word8 {
  std::uint32_t part[2];
};
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

/// Eight elements as they are stored, in one word if they are of 16 bits.
struct Eight {
  Word16 low, high;
};
/// An address that the compiler of a GPU may not know to be one of its main memory.
MOEPLAN_BOTH inline const char* in_memory(const char* address) {
#if defined(__CUDA_ARCH__)
  __builtin_assume(__isGlobal(address));
#endif
  return address;
}

/// Loads elements i to i + 7; element i is aligned to 16 bytes.
MOEPLAN_BOTH inline Eight load8(Format format, const void* data, std::int64_t i) {
  const Word16* words = reinterpret_cast<const Word16*>(static_cast<const char*>(data) + i * size_of(format));
  return {words[0], format == Format::Fp32 ? words[1] : Word16{}};
}
MOEPLAN_BOTH inline void unpack(Format format, const Eight& eight, float (&values)[8]) {
  for (int j = 0; j < 4; ++j) {
    const std::uint32_t two = eight.low.part[j];
    if (format == Format::Fp32) {
      values[j] = float_of(two);
      values[4 + j] = float_of(eight.high.part[j]);
    } else if (format == Format::Bf16) {
      values[2 * j] = float_of(two << 16U);
      values[2 * j + 1] = float_of(two & 0xffff0000U);
    } else {
      values[2 * j] = from_fp16(static_cast<std::uint16_t>(two & 0xffffU));
      values[2 * j + 1] = from_fp16(static_cast<std::uint16_t>(two >> 16U));
    }
  }
}
/// Loads elements i to i + count - 1. `count` is 8, with element i aligned to 16 bytes, or 1.
MOEPLAN_BOTH inline void load(Format format, const void* data, std::int64_t i, int count, float (&values)[8]) {
  if (count == 1) {
    values[0] = load1(format, data, i);
  } else {
    unpack(format, load8(format, data, i), values);
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
  for (int j = 0; j < 4; ++j) low.part[j] = two_of(format, values[2 * j], values[2 * j + 1]);
  words[0] = low;
}

/// The same of bytes; eight of them are aligned to 8 bytes.
MOEPLAN_BOTH inline void load_bytes(const void* data, std::int64_t i, int count, std::uint8_t (&bytes)[8]) {
  const auto* from = static_cast<const std::uint8_t*>(data) + i;
  if (count == 1) {
    bytes[0] = *from;
    return;
  }
  const Word8 word = *reinterpret_cast<const Word8*>(from);
  for (unsigned j = 0; j < 8; ++j) bytes[j] = static_cast<std::uint8_t>(word.part[j / 4] >> (8 * (j % 4)));
}
MOEPLAN_BOTH inline void store_bytes(void* data, std::int64_t i, int count, const std::uint8_t (&bytes)[8]) {
  auto* to = static_cast<std::uint8_t*>(data) + i;
  if (count == 1) {
    *to = bytes[0];
    return;
  }
  Word8 word{{0, 0}};
  for (unsigned j = 0; j < 8; ++j) word.part[j / 4] |= static_cast<std::uint32_t>(bytes[j]) << (8 * (j % 4));
  *reinterpret_cast<Word8*>(to) = word;
}

/// The same of numbers in E4M3. Of eight a GPU converts two at once, from compute capability 8.9 on.
MOEPLAN_BOTH inline void load_fp8(const void* data, std::int64_t i, int count, float (&values)[8]) {
  std::uint8_t bytes[8];
  load_bytes(data, i, count, bytes);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  for (int j = 0; j < count && count == 8; j += 2) {
    std::uint32_t pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<std::uint16_t>(bytes[j] | bytes[j + 1] << 8)));
    values[j] = from_fp16(static_cast<std::uint16_t>(pair & 0xffffU));  // every number of E4M3 is one of fp16
    values[j + 1] = from_fp16(static_cast<std::uint16_t>(pair >> 16U));
  }
  if (count == 8) return;
#endif
  for (int j = 0; j < count; ++j) values[j] = from_fp8(bytes[j]);
}
MOEPLAN_BOTH inline void store_fp8(void* data, std::int64_t i, int count, const float (&values)[8]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  if (count == 8) {
    Word8 word{{0, 0}};
    for (int j = 0; j < 8; j += 2) {
      std::uint16_t pair;
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(values[j + 1]), "f"(values[j]));
      word.part[j / 4] |= static_cast<std::uint32_t>(pair) << (8 * (j % 4));
    }
    *reinterpret_cast<Word8*>(static_cast<std::uint8_t*>(data) + i) = word;
    return;
  }
#endif
  std::uint8_t bytes[8];
  for (int j = 0; j < count; ++j) bytes[j] = fp8_of(values[j]);
  store_bytes(data, i, count, bytes);
}

/// A format that is known when a kernel is compiled, so that its loops have no branches for others.
template <Format kFormat>
struct KnownFormat {
  [[nodiscard]] MOEPLAN_BOTH constexpr Format operator()(Format) const { return kFormat; }
};
/// The formats that buffers have.
struct AnyFormat {
  [[nodiscard]] MOEPLAN_BOTH constexpr Format operator()(Format format) const { return format; }
};
/// Calls f with what gives the format of a buffer: this one, if it `is_common` to all buffers.
template <class F>
MOEPLAN_BOTH void with_format(Format format, bool is_common, F f) {
  if (is_common && format == Format::Bf16) return f(KnownFormat<Format::Bf16>());
  if (is_common && format == Format::Fp16) return f(KnownFormat<Format::Fp16>());
  if (is_common && format == Format::Fp32) return f(KnownFormat<Format::Fp32>());
  f(AnyFormat());
}

}  // namespace moeplan::kernels
