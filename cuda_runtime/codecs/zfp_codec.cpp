#include "cuda_runtime/codecs/zfp_codec.hpp"

#include <fmt/format.h>
#include <zfp.h>

#include <cstring>
#include <vector>

#include "model/base/diagnostics.hpp"

namespace moeplan::runtime {

namespace {

constexpr std::size_t kBlock = 4;  // values

/// A bit stream of whole 64-bit words, with zfp's state positioned at its beginning.
class ZfpStream {
 public:
  ZfpStream(std::size_t bytes, unsigned block_bits)
      : words_((bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t) + 1),
        bits_(stream_open(words_.data(), words_.size() * sizeof(std::uint64_t))),
        zfp_(zfp_stream_open(bits_.get())) {
    zfp_stream_set_params(zfp_.get(), block_bits, block_bits, ZFP_MAX_PREC, ZFP_MIN_EXP);
  }
  [[nodiscard]] zfp_stream* zfp() const { return zfp_.get(); }
  [[nodiscard]] std::uint64_t* words() { return words_.data(); }

 private:
  struct Close {
    void operator()(zfp_stream* s) const { zfp_stream_close(s); }
    void operator()(bitstream* b) const { stream_close(b); }
  };
  std::vector<std::uint64_t> words_;
  std::unique_ptr<bitstream, Close> bits_;
  std::unique_ptr<zfp_stream, Close> zfp_;
};

class ZfpRowCodec final : public RowCodec {
 public:
  explicit ZfpRowCodec(std::size_t bits) : bits_(bits) {}

  [[nodiscard]] std::size_t value_bytes(std::size_t columns) const override { return (columns * bits_ + 7) / 8; }
  [[nodiscard]] bool takes(std::size_t columns) const override { return columns > 0 && columns % kBlock == 0; }

  void encode(std::span<const float> row, std::span<std::byte> values, std::span<float>) const override {
    ZfpStream stream(values.size(), block_bits());
    for (std::size_t i = 0; i < row.size(); i += kBlock) zfp_encode_block_float_1(stream.zfp(), row.data() + i);
    zfp_stream_flush(stream.zfp());
    std::memcpy(values.data(), stream.words(), values.size());
  }

  void decode(std::span<const std::byte> values, std::span<const float>, std::span<float> row) const override {
    ZfpStream stream(values.size(), block_bits());
    std::memcpy(stream.words(), values.data(), values.size());
    for (std::size_t i = 0; i < row.size(); i += kBlock) zfp_decode_block_float_1(stream.zfp(), row.data() + i);
  }

 private:
  [[nodiscard]] unsigned block_bits() const { return static_cast<unsigned>(kBlock * bits_); }
  std::size_t bits_;
};

}  // namespace

std::unique_ptr<RowCodec> make_zfp_codec(std::int64_t bits_per_value) {
  // At 3 bits per value a block has 12 bits, of which the empty flag and the exponent take 9.
  constexpr std::int64_t kLeast = 3, kMost = 32;
  if (bits_per_value < kLeast || bits_per_value > kMost) {
    throw InputError(
        Diagnostic{{"codecs"},
                   "zfp.bits",
                   fmt::format("{} cannot be executed; expected {} to {}", bits_per_value, kLeast, kMost)});
  }
  return std::make_unique<ZfpRowCodec>(static_cast<std::size_t>(bits_per_value));
}

}  // namespace moeplan::runtime
