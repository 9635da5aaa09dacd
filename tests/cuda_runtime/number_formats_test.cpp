#include "cuda_runtime/reference/number_formats.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

namespace moeplan::tests::number_formats_test {

using namespace moeplan::runtime;

TEST_CASE("fp16 and bf16 round to the nearest number, ties to even") {
  SECTION("every fp16 number comes back as it was, because it needs no rounding") {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const float value = from_fp16(static_cast<std::uint16_t>(bits));
      if (std::isnan(value)) continue;
      REQUIRE(to_fp16(value) == bits);
      REQUIRE(rounded_to(Dtype::Fp16, static_cast<double>(value)) == static_cast<double>(value));
    }
  }
  SECTION("every bf16 number too") {
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const float value = from_bf16(static_cast<std::uint16_t>(bits));
      if (std::isnan(value)) continue;
      REQUIRE(to_bf16(value) == bits);
    }
  }
  SECTION("halfway cases go to the even significand: 1 + 2^-11 down, 1 + 3 x 2^-11 up; in bf16 with 2^-8") {
    CHECK(from_fp16(to_fp16(1.0F + 0x1p-11F)) == 1.0F);
    CHECK(from_fp16(to_fp16(1.0F + 3 * 0x1p-11F)) == 1.0F + 0x1p-9F);
    CHECK(from_bf16(to_bf16(1.0F + 0x1p-8F)) == 1.0F);
    CHECK(from_bf16(to_bf16(1.0F + 3 * 0x1p-8F)) == 1.0F + 0x1p-6F);
    CHECK(rounded_to(Dtype::Bf16, 1.0 + 3 * 0x1p-8) == 1.0 + 0x1p-6);
  }
  SECTION("the ends of fp16: 65504 is the largest, 65520 rounds to infinity; half of 2^-24 to 0, more to 2^-24") {
    CHECK(from_fp16(to_fp16(65519.0F)) == 65504.0F);
    CHECK(std::isinf(from_fp16(to_fp16(65520.0F))));
    CHECK(std::signbit(from_fp16(to_fp16(-0x1p-25F))));
    CHECK(from_fp16(to_fp16(0x1p-25F)) == 0.0F);
    CHECK(from_fp16(to_fp16(0x1.8p-25F)) == 0x1p-24F);
    CHECK(std::isnan(from_fp16(to_fp16(std::numeric_limits<float>::quiet_NaN()))));
    CHECK(std::isnan(from_bf16(to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  }
}

TEST_CASE("fp8 is E4M3: 448 is the largest number, and every value goes to the nearest, ties to even") {
  std::vector<float> numbers;  // not negative, by their bits
  for (std::uint32_t bits = 0; bits < 0x7f; ++bits) numbers.push_back(from_fp8(static_cast<std::uint8_t>(bits)));
  CHECK(numbers[1] == 0x1p-9F);
  CHECK(numbers[8] == 0x1p-6F);
  CHECK(numbers[0x38] == 1.0F);
  CHECK(numbers.back() == kLargestFp8);
  CHECK(std::is_sorted(numbers.begin(), numbers.end()));
  CHECK(std::isnan(from_fp8(0x7f)));
  CHECK(std::isnan(from_fp8(to_fp8(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(to_fp8(1e9F) == 0x7e);
  CHECK(to_fp8(-std::numeric_limits<float>::infinity()) == 0xfe);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    CAPTURE(numbers[i]);
    REQUIRE(to_fp8(numbers[i]) == i);
    REQUIRE(to_fp8(-numbers[i]) == (i | 0x80U));
    if (i + 1 == numbers.size()) break;
    const float half = (numbers[i] + numbers[i + 1]) / 2;
    REQUIRE(to_fp8(half) == i + i % 2);
    REQUIRE(to_fp8(std::nextafter(half, 0.0F)) == i);
    REQUIRE(to_fp8(std::nextafter(half, 1e9F)) == i + 1);
  }
}

TEST_CASE("rounding agrees with the hardware's and with the bits") {
  rc::prop("fp32 is what a cast gives", [](double value) {
    RC_PRE(std::abs(value) < 3e38);
    RC_ASSERT(rounded_to(Dtype::Fp32, value) == static_cast<double>(static_cast<float>(value)));
  });
  rc::prop("fp16 and bf16 of a float are what their bits say, within the unit roundoff", [](float value) {
    RC_PRE(std::isfinite(value));
    const auto wide = static_cast<double>(value);
    RC_ASSERT(rounded_to(Dtype::Bf16, wide) == static_cast<double>(from_bf16(to_bf16(value))));
    RC_ASSERT(rounded_to(Dtype::Fp16, wide) == static_cast<double>(from_fp16(to_fp16(value))));
    RC_PRE(std::abs(wide) > 1e-37 && std::abs(wide) < 1e38);
    RC_ASSERT(std::abs(rounded_to(Dtype::Bf16, wide) / wide - 1) <= unit_roundoff(Dtype::Bf16));
  });
}

}  // namespace moeplan::tests::number_formats_test
