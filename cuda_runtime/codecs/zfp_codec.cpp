#include "cuda_runtime/codecs/zfp_codec.hpp"

#include <zfp.h>

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <memory>

namespace moeplan {

namespace {

struct CloseStream {
  void operator()(zfp_stream* s) const { zfp_stream_close(s); }
};
struct CloseBits {
  void operator()(bitstream* b) const { stream_close(b); }
};

constexpr std::size_t kValuesPerBlock = 4;
constexpr std::size_t kBlocksPerWord = 2;  // of 64 bits

class ZfpCodec final : public Codec {
 public:
  [[nodiscard]] std::string_view name() const override { return "zfp"; }

  [[nodiscard]] std::size_t encoded_row_bytes(std::size_t columns) const override {
    const std::size_t blocks = (columns + kValuesPerBlock - 1) / kValuesPerBlock;
    return (blocks + kBlocksPerWord - 1) / kBlocksPerWord * sizeof(std::uint64_t);
  }

  void encode_row(std::span<const float> row, std::span<std::byte> out) const override {
    std::vector<std::uint64_t> words(out.size() / sizeof(std::uint64_t));
    Stream stream(words);
    for (std::size_t i = 0; i < row.size(); i += kValuesPerBlock) {
      const std::size_t count = std::min(kValuesPerBlock, row.size() - i);
      if (count == kValuesPerBlock) {
        zfp_encode_block_float_1(stream.zfp.get(), row.data() + i);
      } else {
        zfp_encode_partial_block_strided_float_1(stream.zfp.get(), row.data() + i, count, 1);
      }
    }
    zfp_stream_flush(stream.zfp.get());
    std::memcpy(out.data(), words.data(), out.size());
  }

  void decode_row(std::span<const std::byte> encoded, std::span<float> row) const override {
    std::vector<std::uint64_t> words(encoded.size() / sizeof(std::uint64_t));
    std::memcpy(words.data(), encoded.data(), encoded.size());
    Stream stream(words);
    for (std::size_t i = 0; i < row.size(); i += kValuesPerBlock) {
      const std::size_t count = std::min(kValuesPerBlock, row.size() - i);
      if (count == kValuesPerBlock) {
        zfp_decode_block_float_1(stream.zfp.get(), row.data() + i);
      } else {
        zfp_decode_partial_block_strided_float_1(stream.zfp.get(), row.data() + i, count, 1);
      }
    }
  }

 private:
  struct Stream {
    explicit Stream(std::span<std::uint64_t> words)
        : bits(stream_open(words.data(), words.size_bytes())), zfp(zfp_stream_open(bits.get())) {
      const double rate = zfp_stream_set_rate(zfp.get(), kZfpBitsPerValue, zfp_type_float, 1, zfp_false);
      assert(rate == kZfpBitsPerValue && "zfp rounded the rate");
      static_cast<void>(rate);
      zfp_stream_rewind(zfp.get());
    }
    std::unique_ptr<bitstream, CloseBits> bits;
    std::unique_ptr<zfp_stream, CloseStream> zfp;
  };
};

}  // namespace

const Codec& zfp_codec() {
  static const ZfpCodec codec;
  return codec;
}

}  // namespace moeplan
