#include "planner/placement/strategies/strategy_text.hpp"

#include "model/text/unit_text.hpp"

namespace moeplan::planner {

namespace {

/// Reads "alpha=3" or "n=0.25".
bool read_option(std::string_view option, StrategyText& out) {
  const std::size_t equals = option.find('=');
  if (equals == std::string_view::npos) return false;
  const Parsed<double> value = parse_number(option.substr(equals + 1));
  const auto* number = std::get_if<double>(&value);
  if (!number || *number < 0) return false;
  const std::string_view key = option.substr(0, equals);
  std::optional<double>* target = key == "n" && *number <= 1 ? &out.n_share : key == "alpha" ? &out.alpha : nullptr;
  if (!target || *target) return false;
  *target = *number;
  return true;
}

}  // namespace

std::optional<StrategyText> parse_strategy_text(std::string_view text) {
  std::size_t colon = text.find(':');
  StrategyText out{std::string(text.substr(0, colon)), {}, {}};
  if (colon != std::string_view::npos && !out.name.starts_with("pro_prophet")) return std::nullopt;
  while (colon != std::string_view::npos) {
    const std::size_t begin = colon + 1;
    colon = text.find(':', begin);
    if (!read_option(text.substr(begin, colon == std::string_view::npos ? colon : colon - begin), out))
      return std::nullopt;
  }
  return out;
}

}  // namespace moeplan::planner
