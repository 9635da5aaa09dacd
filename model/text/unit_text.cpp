#include "model/text/unit_text.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <vector>

#include "model/base/diagnostics.hpp"

namespace moeplan {

namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr double kKi = 1024.0, kMi = kKi * kKi, kGi = kMi * kKi, kTi = kGi * kKi;

constexpr std::array kTimeUnits{Unit{"s", 1}, Unit{"ms", 1e-3}, Unit{"us", 1e-6}, Unit{"ns", 1e-9}, Unit{"ps", 1e-12}};
constexpr std::array kByteUnits{Unit{"B", 1},     Unit{"KB", 1e3},  Unit{"MB", 1e6},  Unit{"GB", 1e9}, Unit{"TB", 1e12},
                                Unit{"KiB", kKi}, Unit{"MiB", kMi}, Unit{"GiB", kGi}, Unit{"TiB", kTi}};
constexpr std::array kRateUnits{Unit{"B/s", 1},       Unit{"KB/s", 1e3},    Unit{"MB/s", 1e6},   Unit{"GB/s", 1e9},
                                Unit{"TB/s", 1e12},   Unit{"KiB/s", kKi},   Unit{"MiB/s", kMi},  Unit{"GiB/s", kGi},
                                Unit{"TiB/s", kTi},   Unit{"bps", 0.125},   Unit{"Kbps", 125.0}, Unit{"Mbps", 1.25e5},
                                Unit{"Gbps", 1.25e8}, Unit{"Tbps", 1.25e11}};
constexpr std::array kBetaUnits{Unit{"s/B", 1}, Unit{"ms/B", 1e-3}, Unit{"us/B", 1e-6}, Unit{"ns/B", 1e-9},
                                Unit{"ps/B", 1e-12}};
constexpr std::array kFlopUnits{Unit{"FLOP/s", 1}, Unit{"MFLOP/s", 1e6}, Unit{"GFLOP/s", 1e9}, Unit{"TFLOP/s", 1e12},
                                Unit{"PFLOP/s", 1e15}};

bool starts_number(char c) { return (c >= '0' && c <= '9') || c == '-' || c == '.'; }

Parsed<double> parse_with_unit(std::string_view text, std::span<const Unit> units, std::string_view example) {
  if (text.empty()) return TextError{fmt::format("empty; write e.g. {}", example)};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::general);
  if (error == std::errc::result_out_of_range) return TextError{fmt::format("{} is out of range", in_quotes(text))};
  if (error != std::errc{} || !starts_number(text.front())) {
    return TextError{fmt::format("{} is not a number with a unit; write e.g. {}", in_quotes(text), example)};
  }
  if (!std::isfinite(number))
    return TextError{fmt::format("{} is not finite; write e.g. {}", in_quotes(text), example)};
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.empty()) {
    if (number == 0) return 0.0;
    return TextError{fmt::format("{} has no unit; write e.g. {}", in_quotes(text), example)};
  }
  if (unit.front() == ' ') unit.remove_prefix(1);
  for (const Unit& u : units) {
    if (u.name != unit) continue;
    // Divide by the exact inverse if the factor is a negative power of ten: 3 us is then exactly the double 3e-6.
    const double value = u.factor < 1 && u.factor != 0.125 ? number / std::round(1 / u.factor) : number * u.factor;
    if (!std::isfinite(value)) return TextError{fmt::format("{} is out of range", in_quotes(text))};
    return value;
  }
  std::vector<std::string> names;
  for (const Unit& u : units) names.emplace_back(u.name);
  return TextError{fmt::format("{} has unknown unit {}{}; write e.g. {}", in_quotes(text), in_quotes(unit),
                               suggestion(unit, names), example)};
}

template <class Q>
Parsed<Q> typed(Parsed<double> parsed) {
  if (auto* error = std::get_if<TextError>(&parsed)) return std::move(*error);
  return Q(std::get<double>(parsed));
}

std::string four_digits(double value, std::string_view unit) {
  if (value == 0 || !std::isfinite(value)) return fmt::format("{:g} {}", value, unit);
  const int digits_before = static_cast<int>(std::floor(std::log10(std::abs(value)))) + 1;
  return fmt::format("{:.{}f} {}", value, std::max(0, 4 - std::max(1, digits_before)), unit);
}

std::string in_suitable(double value, std::span<const Unit> ascending) {
  const Unit* chosen = &ascending.front();
  for (const Unit& u : ascending) {
    if (std::abs(value) >= u.factor * 0.99995) chosen = &u;
  }
  return four_digits(value / chosen->factor, chosen->name);
}

}  // namespace

Parsed<double> parse_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::general);
  if (error == std::errc::result_out_of_range) return TextError{fmt::format("{} is out of range", in_quotes(text))};
  if (error != std::errc{} || end != text.data() + text.size()) {
    return TextError{fmt::format("{} is not a number", in_quotes(text))};
  }
  if (!std::isfinite(number)) return TextError{fmt::format("{} is not a finite number", in_quotes(text))};
  return number;
}

Parsed<long long> parse_integer(std::string_view text) {
  long long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range) return TextError{fmt::format("{} is out of range", in_quotes(text))};
  if (error != std::errc{} || end != text.data() + text.size()) {
    return TextError{fmt::format("{} is not a whole number", in_quotes(text))};
  }
  const std::string_view digits = text.front() == '-' ? text.substr(1) : text;
  if (digits.size() > 1 && digits.front() == '0') {
    return TextError{fmt::format("{} has leading zeros; write {}", in_quotes(text), number)};
  }
  return number;
}

Parsed<Seconds> parse_seconds(std::string_view text) {
  return typed<Seconds>(parse_with_unit(text, kTimeUnits, "\"12.5 us\""));
}
Parsed<Bytes> parse_bytes(std::string_view text) {
  return typed<Bytes>(parse_with_unit(text, kByteUnits, "\"80 GB\" or \"16 MiB\""));
}
Parsed<BytesPerSecond> parse_bytes_per_second(std::string_view text) {
  return typed<BytesPerSecond>(parse_with_unit(text, kRateUnits, "\"450 GB/s\" or \"3600 Gbps\""));
}
Parsed<SecondsPerByte> parse_seconds_per_byte(std::string_view text) {
  return typed<SecondsPerByte>(parse_with_unit(text, kBetaUnits, "\"0.306 ns/B\""));
}
Parsed<FlopsPerSecond> parse_flops_per_second(std::string_view text) {
  return typed<FlopsPerSecond>(parse_with_unit(text, kFlopUnits, "\"989 TFLOP/s\""));
}

std::string human(Seconds t) {
  static constexpr std::array kUnits{Unit{"ps", 1e-12}, Unit{"ns", 1e-9}, Unit{"us", 1e-6}, Unit{"ms", 1e-3},
                                     Unit{"s", 1}};
  return t.value() == 0 ? "0 s" : in_suitable(t.value(), kUnits);
}
std::string human(Bytes n) {
  static constexpr std::array kUnits{Unit{"B", 1}, Unit{"KiB", kKi}, Unit{"MiB", kMi}, Unit{"GiB", kGi},
                                     Unit{"TiB", kTi}};
  return std::abs(n.value()) < kKi ? fmt::format("{:g} B", n.value()) : in_suitable(n.value(), kUnits);
}
std::string human(BytesPerSecond rate) {
  static constexpr std::array kUnits{Unit{"B/s", 1}, Unit{"KB/s", 1e3}, Unit{"MB/s", 1e6}, Unit{"GB/s", 1e9},
                                     Unit{"TB/s", 1e12}};
  return in_suitable(rate.value(), kUnits);
}
std::string human(FlopsPerSecond rate) {
  static constexpr std::array kUnits{Unit{"FLOP/s", 1}, Unit{"MFLOP/s", 1e6}, Unit{"GFLOP/s", 1e9},
                                     Unit{"TFLOP/s", 1e12}, Unit{"PFLOP/s", 1e15}};
  return in_suitable(rate.value(), kUnits);
}

std::string exact(double number) { return fmt::format("{}", number); }

std::string gib(Bytes n) { return fmt::format("{:.1f}", n.value() / 1073741824.0); }

}  // namespace moeplan
