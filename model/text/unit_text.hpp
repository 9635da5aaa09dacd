// The strict text form of quantities: a number, at most one space, and a case-sensitive unit.
//
// GB = 1e9 B, GiB = 2^30 B, Gbps = 1.25e8 B/s. A number with a dimension but no unit is an error, except 0.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "model/base/quantity.hpp"

namespace moeplan {

/// A parse error: a sentence that states the expected form.
struct TextError {
  std::string message;
};

template <class T>
using Parsed = std::variant<T, TextError>;

/// Parses a finite decimal number; the whole text must match. Accepts "1e-3"; rejects "", "0x10", "nan", "inf", " 1",
/// "1_000".
[[nodiscard]] Parsed<double> parse_number(std::string_view text);

/// Parses a decimal integer; the whole text must match. Rejects "1.0", "+1", leading zeros ("010").
[[nodiscard]] Parsed<long long> parse_integer(std::string_view text);

[[nodiscard]] Parsed<Seconds> parse_seconds(std::string_view text);                  // s ms us ns ps
[[nodiscard]] Parsed<Bytes> parse_bytes(std::string_view text);                      // B KB MB GB TB KiB MiB GiB TiB
[[nodiscard]] Parsed<BytesPerSecond> parse_bytes_per_second(std::string_view text);  // B/s .. TB/s, GiB/s, bps .. Tbps
[[nodiscard]] Parsed<SecondsPerByte> parse_seconds_per_byte(std::string_view text);  // s/B ms/B us/B ns/B ps/B
[[nodiscard]] Parsed<FlopsPerSecond> parse_flops_per_second(std::string_view text);  // FLOP/s .. PFLOP/s

template <class Q>
[[nodiscard]] Parsed<Q> parse_quantity(std::string_view text);
template <>
[[nodiscard]] inline Parsed<Seconds> parse_quantity<Seconds>(std::string_view text) {
  return parse_seconds(text);
}
template <>
[[nodiscard]] inline Parsed<Bytes> parse_quantity<Bytes>(std::string_view text) {
  return parse_bytes(text);
}
template <>
[[nodiscard]] inline Parsed<BytesPerSecond> parse_quantity<BytesPerSecond>(std::string_view text) {
  return parse_bytes_per_second(text);
}
template <>
[[nodiscard]] inline Parsed<SecondsPerByte> parse_quantity<SecondsPerByte>(std::string_view text) {
  return parse_seconds_per_byte(text);
}
template <>
[[nodiscard]] inline Parsed<FlopsPerSecond> parse_quantity<FlopsPerSecond>(std::string_view text) {
  return parse_flops_per_second(text);
}

/// Human-readable text: about four digits in a suitable unit, "12.58 ms", "450.0 GB/s", "71.30 GiB".
[[nodiscard]] std::string human(Seconds t);
[[nodiscard]] std::string human(Bytes n);
[[nodiscard]] std::string human(BytesPerSecond rate);
[[nodiscard]] std::string human(FlopsPerSecond rate);

/// Gibibytes with one decimal and no unit, for tables: "71.3".
[[nodiscard]] std::string gib(Bytes n);

/// The shortest text that parses back to exactly this number.
[[nodiscard]] std::string exact(double number);

}  // namespace moeplan
