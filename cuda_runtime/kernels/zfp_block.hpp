// One block of four floats in zfp's fixed-rate format, bit-identical to what libzfp 1.0 writes and reads (P. Lindstrom,
// "Fixed-Rate Compressed Floating-Point Arrays", IEEE TVCG 20(12), 2014). The block consists of one bit that tells
// whether it is non-empty, the common exponent (8 bits), and the four numbers as 32-bit integers after a lifted
// transform, in negabinary, by bit planes from the highest on, each with a run-length code of its zeros, truncated to
// the size of the block.
#pragma once

#include <cmath>

#include "cuda_runtime/kernels/formats.hpp"

namespace moeplan::kernels {

constexpr int kZfpBlock = 4;  // values
constexpr int kZfpExponentBias = 127;
constexpr std::uint32_t kNegabinary = 0xaaaaaaaaU;

/// A sequence of at most 128 bits, lowest bit first.
struct ZfpBits {
  std::uint64_t words[2] = {0, 0};
  int place = 0;

  MOEPLAN_BOTH void write(std::uint32_t bit) {
    words[place / 64] |= static_cast<std::uint64_t>(bit) << (place % 64);
    ++place;
  }
  MOEPLAN_BOTH std::uint32_t read() {
    const std::uint64_t bit = words[place / 64] >> (place % 64) & 1U;
    ++place;
    return static_cast<std::uint32_t>(bit);
  }
};

/// 2^exponent; beyond the range of fp32, infinity or zero, as ldexpf returns them.
MOEPLAN_BOTH inline float power_of_two(int exponent) { return ldexpf(1.0F, exponent); }

/// Conversion of a float to an integer as on x86. libzfp relies on it for blocks below 2^-97, where the scale
/// overflows.
MOEPLAN_BOTH inline std::int32_t integer_of(float value) {
  const bool is_in_range = value >= -0x1p31F && value < 0x1p31F;
  return is_in_range ? static_cast<std::int32_t>(value) : INT32_MIN;
}

MOEPLAN_BOTH inline std::int32_t wrapped(std::uint32_t value) { return static_cast<std::int32_t>(value); }
MOEPLAN_BOTH inline std::uint32_t half_of(std::uint32_t value) {
  return static_cast<std::uint32_t>(wrapped(value) >> 1);
}

/// The forward transform: values to the block's negabinary integers.
MOEPLAN_BOTH inline void zfp_transform(const float (&values)[4], int exponent, std::uint32_t (&planes)[4]) {
  const float scale = power_of_two(30 - exponent);
  std::uint32_t v[4];
  for (int i = 0; i < 4; ++i) v[i] = static_cast<std::uint32_t>(integer_of(scale * values[i]));
  std::uint32_t x = v[0], y = v[1], z = v[2], w = v[3];
  x += w;
  x = half_of(x);
  w -= x;
  z += y;
  z = half_of(z);
  y -= z;
  x += z;
  x = half_of(x);
  z -= x;
  w += y;
  w = half_of(w);
  y -= w;
  w += half_of(y);
  y -= half_of(w);
  planes[0] = (x + kNegabinary) ^ kNegabinary;
  planes[1] = (y + kNegabinary) ^ kNegabinary;
  planes[2] = (z + kNegabinary) ^ kNegabinary;
  planes[3] = (w + kNegabinary) ^ kNegabinary;
}

MOEPLAN_BOTH inline void zfp_restore(const std::uint32_t (&planes)[4], int exponent, float (&values)[4]) {
  std::uint32_t v[4];
  for (int i = 0; i < 4; ++i) v[i] = (planes[i] ^ kNegabinary) - kNegabinary;
  std::uint32_t x = v[0], y = v[1], z = v[2], w = v[3];
  y += half_of(w);
  w -= half_of(y);
  y += w;
  w <<= 1U;
  w -= y;
  z += x;
  x <<= 1U;
  x -= z;
  y += z;
  z <<= 1U;
  z -= y;
  w += x;
  x <<= 1U;
  x -= w;
  const float scale = power_of_two(exponent - 30);
  values[0] = scale * static_cast<float>(wrapped(x));
  values[1] = scale * static_cast<float>(wrapped(y));
  values[2] = scale * static_cast<float>(wrapped(z));
  values[3] = scale * static_cast<float>(wrapped(w));
}

/// The encoded block, truncated to `bits` bits, 12 to 128.
MOEPLAN_BOTH inline ZfpBits zfp_encoded(const float (&values)[4], int bits) {
  ZfpBits out;
  float largest = 0;
  for (int i = 0; i < 4; ++i) largest = fmaxf(largest, fabsf(values[i]));
  if (!(largest > 0)) return out;
  int exponent = 0;
  (void)frexpf(largest, &exponent);
  if (exponent < 1 - kZfpExponentBias) exponent = 1 - kZfpExponentBias;
  const auto head = static_cast<std::uint32_t>(2 * (exponent + kZfpExponentBias) + 1);
  for (unsigned i = 0; i < 9; ++i) out.write(head >> i & 1U);
  std::uint32_t planes[4];
  zfp_transform(values, exponent, planes);
  int left = bits - 9;
  int known = 0;  // values with a one bit in an earlier plane
  for (unsigned plane = 32; left > 0 && plane-- > 0;) {
    std::uint32_t x = 0;
    for (unsigned i = 0; i < 4; ++i) x |= (planes[i] >> plane & 1U) << i;
    for (int i = 0; i < known && left > 0; ++i, --left, x >>= 1U) out.write(x & 1U);
    // For the other values: whether a one bit follows, then the zeros up to it.
    while (known < 4 && left > 0) {
      --left;
      out.write(x != 0 ? 1U : 0U);
      if (x == 0) break;
      while (known < 3 && left > 0) {
        --left;
        const std::uint32_t bit = x & 1U;
        out.write(bit);
        if (bit != 0) break;
        x >>= 1U;
        ++known;
      }
      x >>= 1U;
      ++known;
    }
  }
  return out;
}

MOEPLAN_BOTH inline void zfp_decode(ZfpBits in, int bits, float (&values)[4]) {
  for (float& v : values) v = 0;
  if (in.read() == 0) return;
  std::uint32_t biased = 0;
  for (unsigned i = 0; i < 8; ++i) biased |= in.read() << i;
  std::uint32_t planes[4] = {0, 0, 0, 0};
  int left = bits - 9;
  int known = 0;
  for (unsigned plane = 32; left > 0 && plane-- > 0;) {
    std::uint32_t x = 0;
    for (int i = 0; i < known && left > 0; ++i, --left) x |= in.read() << static_cast<unsigned>(i);
    while (known < 4 && left > 0) {
      --left;
      if (in.read() == 0) break;
      while (known < 3 && left > 0) {
        --left;
        if (in.read() != 0) break;
        ++known;
      }
      x |= 1U << static_cast<unsigned>(known);
      ++known;
    }
    for (unsigned i = 0; i < 4; ++i) planes[i] |= (x >> i & 1U) << plane;
  }
  zfp_restore(planes, static_cast<int>(biased) - kZfpExponentBias, values);
}

}  // namespace moeplan::kernels
