// zfp (P. Lindstrom, "Fixed-Rate Compressed Floating-Point Arrays", IEEE TVCG 20(12), 2014), of Debian's libzfp.
#pragma once

#include "cuda_runtime/codecs/codec.hpp"

namespace moeplan {

inline constexpr double kZfpBitsPerValue = 8;

/// One-dimensional blocks of four values, 32 bits each; a row's stream is filled up to whole 64-bit words.
[[nodiscard]] const Codec& zfp_codec();

}  // namespace moeplan
