// The number formats of kernels against those of the library.
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>

#include "cuda_runtime/kernels/formats.hpp"
#include "cuda_runtime/reference/number_formats.hpp"

namespace moeplan::tests::kernel_formats_test {

using namespace moeplan::runtime;

TEST_CASE("kernels' narrow formats have the bits of the library's") {
  SECTION("fp8 around every number, and there and back") {
    for (std::uint32_t b = 0; b < 0x100; ++b) {
      const auto bits = static_cast<std::uint8_t>(b);
      const float low = from_fp8(bits);
      if (std::isnan(low)) {
        REQUIRE(std::isnan(kernels::from_fp8(bits)));
        continue;
      }
      REQUIRE(kernels::from_fp8(bits) == low);
      REQUIRE(kernels::fp8_of(low) == bits);
      const float high = (b & 0x7fU) == 0x7eU ? 2 * low : from_fp8(static_cast<std::uint8_t>(b + 1));
      const float middle = (low + high) / 2;
      for (const float v : {std::nextafter(middle, low), middle, std::nextafter(middle, high)}) {
        REQUIRE(kernels::fp8_of(v) == to_fp8(v));
      }
    }
  }
  SECTION("every fp16 and bf16 there and back") {
    for (std::uint32_t b = 0; b < 0x10000; ++b) {
      const auto bits = static_cast<std::uint16_t>(b);
      const float h = kernels::from_fp16(bits), f = from_fp16(bits);
      REQUIRE((std::isnan(f) ? std::isnan(h) : h == f));
      if (!std::isnan(f)) REQUIRE(kernels::fp16_of(f) == bits);
      const float g = kernels::from_bf16(bits);
      if (!std::isnan(g)) REQUIRE(kernels::bf16_of(g) == to_bf16(from_bf16(bits)));
    }
  }
  SECTION("fp32 is rounded to nearest, ties to even, around every fp16") {
    for (std::uint32_t b = 0; b < 0x7c00; ++b) {
      const float low = from_fp16(static_cast<std::uint16_t>(b));
      const float high = b + 1 == 0x7c00 ? 65536.0F : from_fp16(static_cast<std::uint16_t>(b + 1));
      const float middle = (low + high) / 2;
      for (const float v : {std::nextafter(middle, low), middle, std::nextafter(middle, high), -middle}) {
        REQUIRE(kernels::fp16_of(v) == to_fp16(v));
        REQUIRE(kernels::bf16_of(v) == to_bf16(v));
      }
    }
  }
  rc::prop("any bits of fp32", [](std::uint32_t bits) {
    const float v = std::bit_cast<float>(bits);
    RC_PRE(!std::isnan(v));
    RC_ASSERT(kernels::fp16_of(v) == to_fp16(v));
    RC_ASSERT(kernels::bf16_of(v) == to_bf16(v));
    RC_ASSERT(kernels::fp8_of(v) == to_fp8(v));
  });
}

}  // namespace moeplan::tests::kernel_formats_test
