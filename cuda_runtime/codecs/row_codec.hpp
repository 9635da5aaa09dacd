// What a Codec operation of a Program does to values: rows into the format in which they are sent, and back.
//
// A row is encoded on its own, into a number of bytes that depends on its length alone, so that any set of rows can be
// cut, sent and put together by rows. What belongs to a whole row (int8's scale and zero point) stands apart from its
// values, as the Program's buffers do. Values must be finite.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "model/workload/workload.hpp"

namespace moeplan::runtime {

class RowCodec {
 public:
  virtual ~RowCodec() = default;

  /// Bytes of the values of a row of so many columns.
  [[nodiscard]] virtual std::size_t value_bytes(std::size_t columns) const = 0;
  /// fp32 numbers that a row has beside its values.
  [[nodiscard]] virtual std::size_t row_numbers() const { return 0; }
  /// Whether rows of this length can be encoded.
  [[nodiscard]] virtual bool takes(std::size_t columns) const { return columns > 0; }
  /// One row; `values` has value_bytes() of its length, `numbers` row_numbers().
  virtual void encode(std::span<const float> row, std::span<std::byte> values, std::span<float> numbers) const = 0;
  virtual void decode(std::span<const std::byte> values, std::span<const float> numbers,
                      std::span<float> row) const = 0;
};

/// fp16: binary16, two bytes a value: relative error 2^-11 down to 6e-5, absolute 3e-8 below; 65520 and more become
/// infinite.
///
/// int8: one byte a value. With one number a row, the scale: largest magnitude / 127. With two, scale and zero point:
/// the row's middle, and half of its range / 127. The error is half a scale, and what rounding in fp32 adds.
///
/// zfp: fixed rate of `zfp_bits` a value in one-dimensional blocks of four (P. Lindstrom, "Fixed-Rate Compressed
/// Floating-Point Arrays", IEEE TVCG 20(12), 2014; Debian's libzfp). Rows of a multiple of four columns. No bound of
/// the error; measured at 8 bits on normal values: RMS 0.055 of the values' RMS, 0.036 of each block's largest
/// magnitude. At least 3 bits: raises InputError for fewer, which do not hold a block's exponent.
[[nodiscard]] std::unique_ptr<RowCodec> make_row_codec(WireFormat format, const CodecOptions& options);

/// What is left of rows of `columns` values each, after the way through the codec.
void pass_through(const RowCodec& codec, std::size_t columns, std::span<float> values);

}  // namespace moeplan::runtime
