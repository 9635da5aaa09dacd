#include "planner/sweep/axis_values.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "model/text/unit_text.hpp"

namespace moeplan::sweep {

namespace {

using Reading = std::function<std::optional<double>(std::string_view)>;

template <class Q>
std::optional<double> value_as(std::string_view text) {
  const Parsed<Q> parsed = parse_quantity<Q>(text);
  if (!std::holds_alternative<Q>(parsed)) return std::nullopt;
  return std::get<Q>(parsed).value();
}

std::optional<double> as_number(std::string_view text) {
  const Parsed<double> parsed = parse_number(text);
  if (!std::holds_alternative<double>(parsed)) return std::nullopt;
  return std::get<double>(parsed);
}

/// The kinds of values that a range can have: plain numbers, and every dimension used in configurations.
const std::vector<Reading>& readings() {
  static const std::vector<Reading> kReadings{as_number,         value_as<Bytes>,          value_as<BytesPerSecond>,
                                              value_as<Seconds>, value_as<SecondsPerByte>, value_as<FlopsPerSecond>};
  return kReadings;
}

/// The unit with its space: " GiB" for "1 GiB", "" for a number.
std::string unit_of(const std::string& text) {
  const std::size_t last = text.find_last_of("0123456789.");
  std::string unit = text.substr(last + 1);
  if (!unit.empty() && unit.front() != ' ') unit.insert(0, 1, ' ');
  return unit;
}

/// The size of a unit as the reader computes it, so that a value is exact in its unit.
double size_of(const std::string& unit, const Reading& reading) {
  return unit.empty() ? 1 : reading("1" + unit).value_or(1);
}

class Range {
 public:
  Range(const std::string& first, const std::string& last, Reading reading)
      : reading_(std::move(reading)), first_(*reading_(first)), last_(*reading_(last)), units_{unit_of(first)} {
    if (unit_of(last) != units_.front()) units_.push_back(unit_of(last));
  }

  [[nodiscard]] bool falls() const { return last_ < first_; }

  std::vector<std::string> values(double step, bool adds) const {
    std::vector<std::string> out;
    const double end = last_ + std::abs(last_) * 1e-9;
    for (std::size_t i = 0; out.size() <= kMostAxisValues; ++i) {
      const double n = static_cast<double>(i);
      const double value = adds ? first_ + n * step : first_ * std::pow(step, n);
      if (!(value <= end)) break;
      out.push_back(text(value));
    }
    return out;
  }
  [[nodiscard]] double first() const { return first_; }

 private:
  std::string text(double value) const {
    std::string best;
    double best_size = 0;
    for (const std::string& unit : units_) {
      const double size = size_of(unit, reading_), number = value / size;
      if (number != std::floor(number) || size <= best_size) continue;
      best = exact(number) + unit;
      best_size = size;
    }
    return best.empty() ? exact(value / size_of(units_.front(), reading_)) + units_.front() : best;
  }

  Reading reading_;
  double first_;
  double last_;
  std::vector<std::string> units_;
};

std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end = text.find(':'); end != std::string::npos; end = text.find(':', begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

}  // namespace

std::vector<std::string> values_of_text(const std::string& text, const Location& where, const std::string& key_path,
                                        Diagnostics& diagnostics) {
  const std::vector<std::string> parts = parts_of(text);
  if (parts.size() != 3) return {text};
  for (const Reading& reading : readings()) {
    if (!reading(parts[0]) || !reading(parts[1])) continue;
    const Range range(parts[0], parts[1], reading);
    const bool adds = parts[2].starts_with('+');
    const std::optional<double> step = adds ? reading(parts[2].substr(1)) : as_number(parts[2]);
    if (!step || !(*step > (adds ? 0 : 1))) {
      diagnostics.add(where, key_path,
                      fmt::format("{} is no range: {} is no {}", in_quotes(text), in_quotes(parts[2]),
                                  adds ? "step > 0 of the kind of its ends" : "factor > 1 (or write +STEP)"));
    } else if (range.falls() || (!adds && !(range.first() > 0))) {
      diagnostics.add(where, key_path,
                      fmt::format("{} is no range: {}", in_quotes(text),
                                  range.falls() ? "it ends before it begins" : "a factor needs a first value > 0"));
    } else {
      return range.values(*step, adds);
    }
    return {};
  }
  return {text};
}

std::vector<std::string> axis_values(const Node& node, const std::string& key_path, Diagnostics& diagnostics,
                                     Repeats repeats) {
  std::vector<std::string> out;
  std::set<std::string> seen;
  const auto add = [&](const Node& scalar, const std::string& path) {
    if (scalar.kind != Node::Kind::Scalar) {
      diagnostics.add(scalar.where, path,
                      "expected a value as after the = of -C; write a map or list in quotes: \"{shape: uniform}\"");
      return;
    }
    for (std::string& value : values_of_text(scalar.scalar, scalar.where, path, diagnostics)) {
      if (!seen.insert(value).second && repeats == Repeats::Refused) {
        diagnostics.add(scalar.where, path, fmt::format("{} occurs twice", in_quotes(value)));
      }
      out.push_back(std::move(value));
    }
  };
  if (node.kind == Node::Kind::List) {
    for (std::size_t i = 0; i < node.items.size(); ++i) add(node.items[i], fmt::format("{}[{}]", key_path, i));
    if (node.items.empty()) diagnostics.add(node.where, key_path, "has no values");
  } else {
    add(node, key_path);
  }
  if (out.size() > kMostAxisValues) {
    diagnostics.add(node.where, key_path, fmt::format("has more than {} values", kMostAxisValues));
    out.resize(1);
  }
  return out;
}

}  // namespace moeplan::sweep
