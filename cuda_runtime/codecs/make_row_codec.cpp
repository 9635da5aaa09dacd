#include "cuda_runtime/codecs/make_row_codec.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cuda_runtime/codecs/zfp_codec.hpp"
#include "cuda_runtime/reference/number_formats.hpp"

namespace moeplan::runtime {

namespace {

class Fp16RowCodec final : public RowCodec {
 public:
  [[nodiscard]] std::size_t value_bytes(std::size_t columns) const override { return 2 * columns; }
  void encode(std::span<const float> row, std::span<std::byte> values, std::span<float>) const override {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::uint16_t bits = to_fp16(row[i]);
      std::memcpy(&values[2 * i], &bits, sizeof bits);
    }
  }
  void decode(std::span<const std::byte> values, std::span<const float>, std::span<float> row) const override {
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, &values[2 * i], sizeof bits);
      row[i] = from_fp16(bits);
    }
  }
};

/// 1 / scale, which is finite; 0 for scales that are no normal numbers, whose values become 0.
float inverse_of(float scale) { return scale < std::numeric_limits<float>::min() ? 0.0F : 1.0F / scale; }

class Int8RowCodec final : public RowCodec {
 public:
  explicit Int8RowCodec(std::size_t numbers) : numbers_(numbers) {}
  [[nodiscard]] std::size_t value_bytes(std::size_t columns) const override { return columns; }
  [[nodiscard]] std::size_t row_numbers(std::size_t /*columns*/) const override { return numbers_; }

  void encode(std::span<const float> row, std::span<std::byte> values, std::span<float> numbers) const override {
    const auto [least, most] = std::minmax_element(row.begin(), row.end());
    // Halved before the sum and difference, so that neither overflows.
    const float zero = numbers_ == 2 ? *least / 2 + *most / 2 : 0.0F;
    const float reach = numbers_ == 2 ? *most / 2 - *least / 2 : std::max(std::abs(*least), std::abs(*most));
    const float scale = reach / kSteps, steps_each = inverse_of(scale);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const float steps = std::clamp(std::nearbyint((row[i] - zero) * steps_each), -kSteps, kSteps);
      const auto value = static_cast<std::int8_t>(steps);
      std::memcpy(&values[i], &value, 1);
    }
    if (numbers_ > 0) numbers[0] = scale;
    if (numbers_ > 1) numbers[1] = zero;
  }

  void decode(std::span<const std::byte> values, std::span<const float> numbers, std::span<float> row) const override {
    const float zero = numbers_ == 2 ? numbers[1] : 0.0F;
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::int8_t value = 0;
      std::memcpy(&value, &values[i], 1);
      row[i] = zero + numbers[0] * static_cast<float>(value);
    }
  }

 private:
  static constexpr float kSteps = 127;
  std::size_t numbers_;
};

class Fp8BlockRowCodec final : public RowCodec {
 public:
  [[nodiscard]] std::size_t value_bytes(std::size_t columns) const override { return columns; }
  [[nodiscard]] std::size_t row_numbers(std::size_t columns) const override { return (columns + kBlock - 1) / kBlock; }

  void encode(std::span<const float> row, std::span<std::byte> values, std::span<float> scales) const override {
    for (std::size_t i = 0; i < row.size(); ++i) {
      float& scale = scales[i / kBlock];
      if (i % kBlock == 0) scale = largest(row.subspan(i, std::min(kBlock, row.size() - i))) / kLargestFp8;
      values[i] = static_cast<std::byte>(to_fp8(row[i] * inverse_of(scale)));
    }
  }

  void decode(std::span<const std::byte> values, std::span<const float> scales, std::span<float> row) const override {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = scales[i / kBlock] * from_fp8(static_cast<std::uint8_t>(values[i]));
    }
  }

 private:
  static constexpr auto kBlock = static_cast<std::size_t>(kFp8Block);

  static float largest(std::span<const float> block) {
    float out = 0;
    for (const float v : block) out = std::max(out, std::abs(v));
    return out;
  }
};

}  // namespace

std::unique_ptr<RowCodec> make_row_codec(WireFormat format, const CodecOptions& options) {
  switch (format) {
    case WireFormat::Fp16: return std::make_unique<Fp16RowCodec>();
    case WireFormat::Int8: return std::make_unique<Int8RowCodec>(static_cast<std::size_t>(options.int8_row_messages));
    case WireFormat::Fp8Block: return std::make_unique<Fp8BlockRowCodec>();
    case WireFormat::Zfp: return make_zfp_codec(options.zfp_bits);
  }
  return nullptr;
}

}  // namespace moeplan::runtime
