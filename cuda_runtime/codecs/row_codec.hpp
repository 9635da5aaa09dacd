// Row codecs: the encoding of rows into a wire format and the decoding, as performed by a Program's Codec operations.
//
// Each row is encoded independently, into a number of bytes that depends on its length alone, so that any set of rows
// can be split, sent and reassembled by rows. Per-row parameters (int8's scale and zero point) are stored apart from
// the values, as in the Program's buffers. Values must be finite.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "model/workload/workload.hpp"

namespace moeplan::runtime {

class RowCodec {
 public:
  virtual ~RowCodec() = default;

  /// Bytes of the encoded values of a row of this many columns.
  [[nodiscard]] virtual std::size_t value_bytes(std::size_t columns) const = 0;
  /// Number of fp32 parameters per row, in addition to its values.
  [[nodiscard]] virtual std::size_t row_numbers() const { return 0; }
  /// Whether rows of this many columns can be encoded.
  [[nodiscard]] virtual bool takes(std::size_t columns) const { return columns > 0; }
  /// Encode and decode one row. `values` has value_bytes() bytes for its length, `numbers` has row_numbers() elements.
  virtual void encode(std::span<const float> row, std::span<std::byte> values, std::span<float> numbers) const = 0;
  virtual void decode(std::span<const std::byte> values, std::span<const float> numbers,
                      std::span<float> row) const = 0;
};

/// The codec of a wire format.
///
/// fp16: binary16, two bytes per value. Relative error 2^-11 down to 6e-5, absolute error 3e-8 below; magnitudes from
/// 65520 on become infinite.
///
/// int8: one byte per value. With one parameter per row, the scale: largest magnitude / 127. With two, scale and zero
/// point: the zero point is the centre of the row's range, the scale half of that range / 127. The error is at most
/// half a scale, plus rounding in fp32.
///
/// zfp: fixed rate of `zfp_bits` bits per value in one-dimensional blocks of four (P. Lindstrom, "Fixed-Rate Compressed
/// Floating-Point Arrays", IEEE TVCG 20(12), 2014; Debian's libzfp). Rows must have a multiple of four columns. The
/// error is not bounded; measured at 8 bits on normal values: RMS 0.055 of the values' RMS, 0.036 of each block's
/// largest magnitude. Raises InputError for fewer than 3 bits, which cannot hold a block's exponent.
[[nodiscard]] std::unique_ptr<RowCodec> make_row_codec(WireFormat format, const CodecOptions& options);

/// Replaces rows of `columns` values each by their encoded and decoded values.
void pass_through(const RowCodec& codec, std::size_t columns, std::span<float> values);

}  // namespace moeplan::runtime
