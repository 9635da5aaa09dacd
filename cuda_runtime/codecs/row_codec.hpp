// Row codecs: the encoding of rows into a wire format and the decoding, as performed by a Program's Codec operations.
//
// Each row is encoded independently, into a number of bytes that depends on its length alone, so that any set of rows
// can be split, sent and reassembled by rows. Parameters (scales, int8's zero point) are stored apart from
// the values, as in the Program's buffers. Values must be finite.
#pragma once

#include <cstddef>
#include <span>

namespace moeplan::runtime {

class RowCodec {
 public:
  virtual ~RowCodec() = default;

  /// Bytes of the encoded values of a row of this many columns.
  [[nodiscard]] virtual std::size_t value_bytes(std::size_t columns) const = 0;
  /// Number of fp32 parameters of a row of this many columns, in addition to its values.
  [[nodiscard]] virtual std::size_t row_numbers(std::size_t /*columns*/) const { return 0; }
  /// Whether rows of this many columns can be encoded.
  [[nodiscard]] virtual bool takes(std::size_t columns) const { return columns > 0; }
  /// Encode and decode one row. `values` has value_bytes() bytes and `numbers` row_numbers() elements for its length.
  virtual void encode(std::span<const float> row, std::span<std::byte> values, std::span<float> numbers) const = 0;
  virtual void decode(std::span<const std::byte> values, std::span<const float> numbers,
                      std::span<float> row) const = 0;
};

/// Replaces rows of `columns` values each by their encoded and decoded values.
void pass_through(const RowCodec& codec, std::size_t columns, std::span<float> values);

}  // namespace moeplan::runtime
