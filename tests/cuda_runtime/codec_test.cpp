#include "cuda_runtime/codecs/codec.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "model/base/random.hpp"

using namespace moeplan;

namespace {

std::vector<float> normal_values(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<float>(random.normal()));
  return values;
}

float largest(std::span<const float> values) {
  float out = 0;
  for (const float v : values) out = std::max(out, std::abs(v));
  return out;
}

}  // namespace

TEST_CASE("a row is encoded into as many bytes as its length says") {
  CHECK(find_codec("fp16")->encoded_row_bytes(7) == 2 * 7);
  CHECK(find_codec("int8")->encoded_row_bytes(7) == 7 + 4);   // and the scale
  CHECK(find_codec("zfp")->encoded_row_bytes(4096) == 4096);  // 8 bits a value: a quarter of fp32
  CHECK(find_codec("zfp")->encoded_row_bytes(7) == 8);        // two blocks are a word of 64 bits
  CHECK(find_codec("zfp")->encoded_row_bytes(9) == 16);
  CHECK(find_codec("lz4") == nullptr);
}

TEST_CASE("what a codec loses is bounded") {
  rc::prop("fp16: 2^-11 of each value", [](const std::vector<std::int16_t>& drawn) {
    std::vector<float> row, back(drawn.size());
    for (const auto v : drawn) row.push_back(static_cast<float>(v) / 7.0F);
    back = row;
    if (!row.empty()) pass_through(*find_codec("fp16"), row.size(), back);
    for (std::size_t i = 0; i < row.size(); ++i) RC_ASSERT(std::abs(back[i] - row[i]) <= 0x1p-11F * std::abs(row[i]));
  });
  rc::prop("int8: half a step, the row's largest magnitude / 127", [](const std::vector<std::int16_t>& drawn) {
    std::vector<float> row;
    for (const auto v : drawn) row.push_back(static_cast<float>(v) / 1024.0F);
    std::vector<float> back = row;
    if (!row.empty()) pass_through(*find_codec("int8"), row.size(), back);
    const float step = largest(row) / 127;
    for (std::size_t i = 0; i < row.size(); ++i) RC_ASSERT(std::abs(back[i] - row[i]) <= 0.5001F * step);
  });
  SECTION("zfp at 8 bits on normal values: RMS 0.055 of the values' RMS, 0.036 of each block's largest magnitude") {
    const std::vector<float> values = normal_values(1 << 16, 7);
    std::vector<float> back = values;
    pass_through(*find_codec("zfp"), 1024, back);
    double of_largest = 0, error = 0, square = 0;
    for (std::size_t i = 0; i < values.size(); i += 4) {
      const auto most = static_cast<double>(largest(std::span(values).subspan(i, 4)));
      for (std::size_t j = i; j < i + 4; ++j) {
        const double lost = static_cast<double>(back[j]) - static_cast<double>(values[j]);
        of_largest += lost * lost / (most * most);
        error += lost * lost;
        square += static_cast<double>(values[j]) * static_cast<double>(values[j]);
      }
    }
    CHECK(std::sqrt(error / square) == Approx(0.055).margin(0.003));
    CHECK(std::sqrt(of_largest / static_cast<double>(values.size())) == Approx(0.036).margin(0.003));
  }
}

TEST_CASE("rows are encoded on their own, so that they can be cut and put together anywhere") {
  for (const Codec* codec : codecs()) {
    INFO(codec->name());
    for (const std::size_t columns : {1U, 3U, 4U, 10U, 64U}) {
      const std::vector<float> rows = normal_values(5 * columns, columns);
      std::vector<float> together = rows;
      pass_through(*codec, columns, together);
      for (std::size_t r = 0; r < 5; ++r) {
        std::vector<float> alone(rows.begin() + static_cast<std::ptrdiff_t>(r * columns),
                                 rows.begin() + static_cast<std::ptrdiff_t>((r + 1) * columns));
        pass_through(*codec, columns, alone);
        CHECK(std::equal(alone.begin(), alone.end(), together.begin() + static_cast<std::ptrdiff_t>(r * columns)));
      }
    }
  }
}

TEST_CASE("zeros stay zeros") {
  for (const Codec* codec : codecs()) {
    INFO(codec->name());
    std::vector<float> zeros(12, 0.0F);
    pass_through(*codec, 6, zeros);
    CHECK(largest(zeros) == 0);
  }
}
