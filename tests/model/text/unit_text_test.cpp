#include "model/text/unit_text.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

namespace moeplan::tests::unit_text_test {

namespace {

template <class T>
std::string message(const Parsed<T>& parsed) {
  const auto* error = std::get_if<TextError>(&parsed);
  return error ? error->message : "";
}

}  // namespace

TEST_CASE("A quantity's text is a number and a unit whose case matters") {
  SECTION("decimal and binary prefixes differ, because GB is 1e9 B and GiB is 2^30 B") {
    CHECK(std::get<Bytes>(parse_bytes("80 GB")) == Bytes(80e9));
    CHECK(std::get<Bytes>(parse_bytes("80GiB")) == Bytes(80.0 * (1ULL << 30)));
    CHECK(std::get<BytesPerSecond>(parse_bytes_per_second("400 Gbps")) == BytesPerSecond(400 * 1.25e8));
    CHECK(std::get<BytesPerSecond>(parse_bytes_per_second("450 GB/s")) == BytesPerSecond(450e9));
    CHECK(std::get<FlopsPerSecond>(parse_flops_per_second("989 TFLOP/s")) == FlopsPerSecond(989e12));
    CHECK(std::get<SecondsPerByte>(parse_seconds_per_byte("0.306 ns/B")) == SecondsPerByte(0.306 / 1e9));
  }
  SECTION("digits are kept to the last bit, because 12345.678901 us is 12345.678901 / 1e6 s") {
    CHECK(std::get<Seconds>(parse_seconds("12345.678901us")) == Seconds(12345.678901 / 1e6));
    CHECK(std::get<Seconds>(parse_seconds("3 us")) == Seconds(3e-6));
  }
  SECTION("zero needs no unit, every other number does") {
    CHECK(std::get<Seconds>(parse_seconds("0")) == Seconds(0));
    CHECK_FALSE(std::signbit(std::get<Seconds>(parse_seconds("-0")).value()));
    CHECK(message(parse_bytes_per_second("450")) == R"("450" has no unit; write e.g. "450 GB/s" or "3600 Gbps")");
  }
  SECTION("an unknown unit names the nearest, because most are slips of case") {
    CHECK(message(parse_bytes("80 gB")) ==
          R"("80 gB" has unknown unit "gB"; did you mean "GB"?; write e.g. "80 GB" or "16 MiB")");
    CHECK(message(parse_bytes_per_second("3 Gbs")).find(R"(did you mean "Gbps"?)") != std::string::npos);
    CHECK(message(parse_seconds("1  s")) != "");
    CHECK(message(parse_seconds("1 s ")) != "");
  }
  SECTION("what is no finite decimal number is refused") {
    for (const char* text : {"", "GB", "nan GB", "inf GB", "-inf GB", ".inf GB", "+1 GB", " 1 GB", "0x10 GB",
                             "1_000 GB", "1,5 GB", "1e999 GB", "1e308 TB"}) {
      INFO(text);
      CHECK(message(parse_bytes(text)) != "");
    }
    CHECK(message(parse_bytes("1e999 GB")) == R"("1e999 GB" is out of range)");
    CHECK(message(parse_bytes("")) == R"(empty; write e.g. "80 GB" or "16 MiB")");
  }
}

TEST_CASE("A plain number is a finite decimal, an integer a whole one") {
  SECTION("numbers") {
    CHECK(std::get<double>(parse_number("1e-3")) == 1e-3);
    CHECK(std::get<double>(parse_number("010")) == 10);
    for (const char* text :
         {"", "nan", "inf", "-inf", ".inf", ".nan", "1e999", "0x10", " 1", "1 ", "1_000", "+1", "no"}) {
      INFO(text);
      CHECK(std::holds_alternative<TextError>(parse_number(text)));
    }
    CHECK(message(parse_number("nan")) == R"("nan" is not a finite number)");
    CHECK(message(parse_number("0x10")) == R"("0x10" is not a number)");
    CHECK(message(parse_number("1e999")) == R"("1e999" is out of range)");
  }
  SECTION("010 is refused as an integer, because one reader takes it for 8 and another for 10") {
    CHECK(message(parse_integer("010")) == R"("010" has leading zeros; write 10)");
    CHECK(message(parse_integer("-010")) == R"("-010" has leading zeros; write -10)");
    CHECK(std::get<long long>(parse_integer("-12")) == -12);
    CHECK(std::get<long long>(parse_integer("0")) == 0);
    CHECK(message(parse_integer("9223372036854775808")) == R"("9223372036854775808" is out of range)");
    for (const char* text : {"", "-", "1.0", "1e3", "+1", "0x10", " 1", "no", "--1"}) {
      INFO(text);
      CHECK(message(parse_integer(text)) == std::string("\"") + text + "\" is not a whole number");
    }
  }
}

TEST_CASE("Numbers are printed for people with four digits and for files exactly") {
  SECTION("the unit is the largest that leaves at least one") {
    CHECK(human(Seconds(0.012583)) == "12.58 ms");
    CHECK(human(Seconds(0)) == "0 s");
    CHECK(human(Seconds(3e-12)) == "3.000 ps");
    CHECK(human(Seconds(0.99999)) == "1.000 s");
    CHECK(human(Seconds(1234.5)) == "1234 s");
    CHECK(human(Bytes(1000)) == "1000 B");
    CHECK(human(Bytes(71.3 * (1ULL << 30))) == "71.30 GiB");
    CHECK(human(BytesPerSecond(450e9)) == "450.0 GB/s");
    CHECK(human(BytesPerSecond(0)) == "0 B/s");
    CHECK(human(FlopsPerSecond(989.4e12)) == "989.4 TFLOP/s");
  }
  rc::prop("the exact text of any finite double reads back as that double", [] {
    const auto bits = *rc::gen::arbitrary<std::uint64_t>();
    double number = 0;
    std::memcpy(&number, &bits, sizeof number);
    RC_PRE(std::isfinite(number));
    const auto parsed = parse_number(exact(number));
    RC_ASSERT(std::holds_alternative<double>(parsed));
    RC_ASSERT(std::get<double>(parsed) == number);
  });
}

}  // namespace moeplan::tests::unit_text_test
