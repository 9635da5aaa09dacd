#include "cuda_runtime/codecs/codec.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda_runtime/codecs/zfp_codec.hpp"
#include "cuda_runtime/reference/number_formats.hpp"

namespace moeplan {

namespace {

class Fp16Codec final : public Codec {
 public:
  [[nodiscard]] std::string_view name() const override { return "fp16"; }
  [[nodiscard]] std::size_t encoded_row_bytes(std::size_t columns) const override { return 2 * columns; }
  void encode_row(std::span<const float> row, std::span<std::byte> out) const override {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::uint16_t bits = to_fp16(row[i]);
      std::memcpy(&out[2 * i], &bits, sizeof bits);
    }
  }
  void decode_row(std::span<const std::byte> encoded, std::span<float> row) const override {
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, &encoded[2 * i], sizeof bits);
      row[i] = from_fp16(bits);
    }
  }
};

/// The row's bytes, then its scale.
class Int8Codec final : public Codec {
 public:
  [[nodiscard]] std::string_view name() const override { return "int8"; }
  [[nodiscard]] std::size_t encoded_row_bytes(std::size_t columns) const override { return columns + sizeof(float); }
  void encode_row(std::span<const float> row, std::span<std::byte> out) const override {
    float largest = 0;
    for (const float v : row) largest = std::max(largest, std::abs(v));
    const float scale = largest / 127;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const float steps = scale > 0 ? std::clamp(std::nearbyint(row[i] / scale), -127.0F, 127.0F) : 0;
      const auto value = static_cast<std::int8_t>(steps);
      std::memcpy(&out[i], &value, 1);
    }
    std::memcpy(out.data() + row.size(), &scale, sizeof scale);
  }
  void decode_row(std::span<const std::byte> encoded, std::span<float> row) const override {
    float scale = 0;
    std::memcpy(&scale, encoded.data() + row.size(), sizeof scale);
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::int8_t value = 0;
      std::memcpy(&value, &encoded[i], 1);
      row[i] = scale * static_cast<float>(value);
    }
  }
};

}  // namespace

const std::vector<const Codec*>& codecs() {
  static const Fp16Codec fp16;
  static const Int8Codec int8;
  static const std::vector<const Codec*> all{&fp16, &int8, &zfp_codec()};
  return all;
}

const Codec* find_codec(std::string_view name) {
  for (const Codec* c : codecs()) {
    if (c->name() == name) return c;
  }
  return nullptr;
}

void encode_rows(const Codec& codec, std::span<const float> values, std::size_t columns, std::span<std::byte> out) {
  assert(columns > 0 && values.size() % columns == 0 && "rows of another length");
  const std::size_t bytes = codec.encoded_row_bytes(columns);
  for (std::size_t r = 0; r < values.size() / columns; ++r) {
    codec.encode_row(values.subspan(r * columns, columns), out.subspan(r * bytes, bytes));
  }
}

void decode_rows(const Codec& codec, std::span<const std::byte> encoded, std::size_t columns, std::span<float> values) {
  assert(columns > 0 && values.size() % columns == 0 && "rows of another length");
  const std::size_t bytes = codec.encoded_row_bytes(columns);
  for (std::size_t r = 0; r < values.size() / columns; ++r) {
    codec.decode_row(encoded.subspan(r * bytes, bytes), values.subspan(r * columns, columns));
  }
}

void pass_through(const Codec& codec, std::size_t columns, std::span<float> values) {
  std::vector<std::byte> encoded(values.size() / columns * codec.encoded_row_bytes(columns));
  encode_rows(codec, values, columns, encoded);
  decode_rows(codec, encoded, columns, values);
}

}  // namespace moeplan
