#include "planner/placement/strategies/placement_choice.hpp"

#include <cassert>

#include "planner/placement/strategies/strategy_text.hpp"

namespace moeplan::planner {

PlacementChoice::PlacementChoice(std::string_view text) : text_(text), strategy_(find_placement_strategy(text)) {
  assert(strategy_ && "names are checked where they are read");
}

PlacementOptions PlacementChoice::with_options(PlacementOptions options) const {
  const StrategyText text = *parse_strategy_text(text_);
  options.pro_prophet_n_share = text.n_share.value_or(options.pro_prophet_n_share);
  options.pro_prophet_alpha = text.alpha.value_or(options.pro_prophet_alpha);
  return options;
}

}  // namespace moeplan::planner
