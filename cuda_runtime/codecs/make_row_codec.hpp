// The row codecs of the wire formats.
#pragma once

#include <memory>

#include "cuda_runtime/codecs/row_codec.hpp"
#include "model/workload/workload.hpp"

namespace moeplan::runtime {

/// The codec of a wire format.
///
/// fp16: binary16, two bytes per value. Relative error 2^-11 down to 6e-5, absolute error 3e-8 below; magnitudes from
/// 65520 on become infinite.
///
/// int8: one byte per value. With one parameter per row, the scale: largest magnitude / 127. With two, scale and zero
/// point: the zero point is the centre of the row's range, the scale half of that range / 127. The error is at most
/// half a scale, plus rounding in fp32.
///
/// fp8_block: one byte of E4M3 per value, one parameter per 128 values: largest magnitude / 448. Relative error 2^-4
/// down to 2^-6 of the scale, absolute error 2^-10 of the scale below, plus rounding in fp32.
///
/// zfp: fixed rate of `zfp_bits` bits per value in one-dimensional blocks of four (P. Lindstrom, "Fixed-Rate Compressed
/// Floating-Point Arrays", IEEE TVCG 20(12), 2014; Debian's libzfp). Rows must have a multiple of four columns. The
/// error is not bounded; measured at 8 bits on normal values: RMS 0.055 of the values' RMS, 0.036 of each block's
/// largest magnitude. Raises InputError for fewer than 3 bits, which cannot hold a block's exponent.
[[nodiscard]] std::unique_ptr<RowCodec> make_row_codec(WireFormat format, const CodecOptions& options);

}  // namespace moeplan::runtime
