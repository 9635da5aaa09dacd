// Codecs of dispatched and combined rows: fewer bytes on the wire, for a loss that tests bound.
//
// A row is encoded on its own, into a number of bytes that depends on its length alone, so that any set of rows can be
// cut, sent and put together by rows. Values must be finite.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moeplan {

class Codec {
 public:
  virtual ~Codec() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::size_t encoded_row_bytes(std::size_t columns) const = 0;
  /// One row; `out` has encoded_row_bytes() of its length.
  virtual void encode_row(std::span<const float> row, std::span<std::byte> out) const = 0;
  virtual void decode_row(std::span<const std::byte> encoded, std::span<float> row) const = 0;
};

/// The built-in codecs:
///   fp16  binary16: two bytes a value, relative error 2^-11 down to 6e-5, and 3e-8 absolute below; 65520 and more
///         become infinite
///   int8  one byte a value and four a row: its scale, the largest magnitude / 127; error half a scale
///   zfp   zfp at a fixed rate of 8 bits a value in one-dimensional blocks of four; no bound of the error (measured:
///   RMS
///         0.055 of the block's largest magnitude)
[[nodiscard]] const std::vector<const Codec*>& codecs();

/// By name; none where there is no such codec.
[[nodiscard]] const Codec* find_codec(std::string_view name);

/// All rows of `columns` values each.
void encode_rows(const Codec& codec, std::span<const float> values, std::size_t columns, std::span<std::byte> out);
void decode_rows(const Codec& codec, std::span<const std::byte> encoded, std::size_t columns, std::span<float> values);

/// What is left of the values after the way through the codec.
void pass_through(const Codec& codec, std::size_t columns, std::span<float> values);

}  // namespace moeplan
