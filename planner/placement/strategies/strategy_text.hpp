// A strategy of expert placement as text, with options of its own after colons: "pro_prophet:alpha=3:n=0.25".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace moeplan::planner {

struct StrategyText {
  std::string name;
  // Of the pro_prophet strategies alone (PlacementOptions).
  std::optional<double> n_share;  // n: 0 to 1
  std::optional<double> alpha;    // alpha: 0 or more
};

/// None if an option is not known, is there twice, has no number in its range, or belongs to another strategy.
[[nodiscard]] std::optional<StrategyText> parse_strategy_text(std::string_view text);

}  // namespace moeplan::planner
