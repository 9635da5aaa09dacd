#include "cuda_runtime/codecs/row_codec.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "cuda_runtime/codecs/make_row_codec.hpp"
#include "model/base/random.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::row_codec_test {

using namespace moeplan::runtime;

namespace {

std::unique_ptr<RowCodec> codec(WireFormat format, std::int64_t row_numbers = 2, std::int64_t zfp_bits = 8) {
  return make_row_codec(format, {.zfp_bits = zfp_bits, .int8_row_messages = row_numbers});
}

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

/// Some values of a row, by whole numbers that rapidcheck draws.
std::vector<float> row_of(const std::vector<std::int16_t>& drawn) {
  std::vector<float> row{0.5F};
  for (const auto v : drawn) row.push_back(static_cast<float>(v) / 1024.0F);
  return row;
}

}  // namespace

TEST_CASE("a row takes as many bytes as the plan's wire format says") {
  CHECK(codec(WireFormat::Fp16)->value_bytes(7) == 2 * 7);
  CHECK(codec(WireFormat::Int8)->value_bytes(7) == 7);
  CHECK(codec(WireFormat::Int8, 2)->row_numbers(7) == 2);  // scale and zero point
  CHECK(codec(WireFormat::Int8, 1)->row_numbers(7) == 1);
  CHECK(codec(WireFormat::Fp8Block)->value_bytes(300) == 300);
  CHECK(codec(WireFormat::Fp8Block)->row_numbers(300) == 3);  // a scale per 128 values
  CHECK(codec(WireFormat::Zfp)->value_bytes(4096) == 4096);   // 8 bits a value: a quarter of fp32
  CHECK(codec(WireFormat::Zfp, 2, 5)->value_bytes(4) == 3);   // 20 bits
  CHECK_FALSE(codec(WireFormat::Zfp)->takes(6));              // no whole blocks
}

TEST_CASE("what a codec loses is bounded") {
  rc::prop("fp16: 2^-11 of each value", [](const std::vector<std::int16_t>& drawn) {
    const std::vector<float> row = row_of(drawn);
    std::vector<float> back = row;
    pass_through(*codec(WireFormat::Fp16), row.size(), back);
    for (std::size_t i = 0; i < row.size(); ++i) RC_ASSERT(std::abs(back[i] - row[i]) <= 0x1p-11F * std::abs(row[i]));
  });
  rc::prop("int8 with a scale: half a step, the row's largest magnitude / 127",
           [](const std::vector<std::int16_t>& drawn) {
             const std::vector<float> row = row_of(drawn);
             std::vector<float> back = row;
             pass_through(*codec(WireFormat::Int8, 1), row.size(), back);
             const float step = largest(row) / 127;
             for (std::size_t i = 0; i < row.size(); ++i) RC_ASSERT(std::abs(back[i] - row[i]) <= 0.5001F * step);
           });
  rc::prop("int8 with a zero point too: half a step, half the row's range / 127",
           [](const std::vector<std::int16_t>& drawn) {
             const std::vector<float> row = row_of(drawn);
             std::vector<float> back = row;
             pass_through(*codec(WireFormat::Int8, 2), row.size(), back);
             const auto [least, most] = std::minmax_element(row.begin(), row.end());
             const float step = (*most - *least) / 254;
             for (std::size_t i = 0; i < row.size(); ++i) {
               RC_ASSERT(std::abs(back[i] - row[i]) <= 0.5001F * step + 0x1p-22F * largest(row));
             }
           });
  rc::prop("fp8 in blocks: 2^-4 of each value, or half of the smallest step of its block",
           [](const std::vector<std::int16_t>& drawn) {
             const std::vector<float> row = row_of(drawn);
             std::vector<float> back = row;
             pass_through(*codec(WireFormat::Fp8Block), row.size(), back);
             for (std::size_t i = 0; i < row.size(); ++i) {
               const std::size_t block = i / 128 * 128;
               const float scale =
                   largest(std::span(row).subspan(block, std::min<std::size_t>(128, row.size() - block))) / 448;
               const float bound = std::max(0x1p-4F * std::abs(row[i]), 0x1p-10F * scale);
               RC_ASSERT(std::abs(back[i] - row[i]) <= 1.0001F * bound);
             }
           });
  SECTION("zfp at 8 bits on normal values: RMS 0.055 of the values' RMS, 0.036 of each block's largest magnitude") {
    const std::vector<float> values = normal_values(1 << 16, 7);
    std::vector<float> back = values;
    pass_through(*codec(WireFormat::Zfp), 1024, back);
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
  SECTION("zfp loses less with more bits, and nothing to speak of at 28") {
    double last = 1;
    for (const std::int64_t bits : {5, 8, 16, 28}) {
      const std::vector<float> values = normal_values(4096, 3);
      std::vector<float> back = values;
      pass_through(*codec(WireFormat::Zfp, 2, bits), 64, back);
      double error = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        error += std::pow(static_cast<double>(back[i]) - static_cast<double>(values[i]), 2);
      }
      CHECK(error < last * 4096);
      last = error / 4096;
    }
    CHECK(std::sqrt(last) < 1e-6);
  }
}

TEST_CASE("rows are encoded on their own, so that they can be cut and put together anywhere") {
  for (const auto& [format, name] : kWireFormatNames) {
    INFO(name);
    for (const std::size_t columns : {4U, 12U, 64U}) {
      const std::vector<float> rows = normal_values(5 * columns, columns);
      std::vector<float> together = rows;
      pass_through(*codec(format), columns, together);
      for (std::size_t r = 0; r < 5; ++r) {
        const auto begin = static_cast<std::ptrdiff_t>(r * columns);
        std::vector<float> alone(rows.begin() + begin, rows.begin() + begin + static_cast<std::ptrdiff_t>(columns));
        pass_through(*codec(format), columns, alone);
        CHECK(std::equal(alone.begin(), alone.end(), together.begin() + begin));
      }
    }
  }
}

TEST_CASE("rows of one value, as zeros are, come back as they were") {
  for (const auto& [format, name] : kWireFormatNames) {
    INFO(name);
    std::vector<float> zeros(12, 0.0F);
    pass_through(*codec(format), 12, zeros);
    CHECK(largest(zeros) == 0);
  }
  std::vector<float> fives(12, 5.0F);
  pass_through(*codec(WireFormat::Int8, 2), 12, fives);
  CHECK(fives == std::vector<float>(12, 5.0F));
}

TEST_CASE("too few bits for zfp are refused") {
  CHECK(tests::error_of([] { static_cast<void>(codec(WireFormat::Zfp, 2, 2)); }) ==
        "codecs: zfp.bits: 2 cannot be executed; expected 3 to 32");
}

}  // namespace moeplan::tests::row_codec_test
