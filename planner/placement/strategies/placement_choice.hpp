// A strategy of expert placement with its options, as a candidate holds it.
#pragma once

#include <string>
#include <string_view>

#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

/// Two are equal if their texts are.
class PlacementChoice {
 public:
  // What find_placement_strategy() knows: text from input is checked where it is read.
  PlacementChoice(std::string_view text);                                                // NOLINT
  PlacementChoice(const char* text) : PlacementChoice(std::string_view(text)) {}         // NOLINT
  PlacementChoice(const std::string& text) : PlacementChoice(std::string_view(text)) {}  // NOLINT

  [[nodiscard]] const PlacementStrategy& operator*() const { return *strategy_; }
  [[nodiscard]] const PlacementStrategy* operator->() const { return strategy_; }
  /// Its text (strategy_text.hpp).
  [[nodiscard]] const std::string& name() const { return text_; }
  /// The options with those that the text states.
  [[nodiscard]] PlacementOptions with_options(PlacementOptions options) const;
  bool operator==(const PlacementChoice& other) const { return text_ == other.text_; }

 private:
  std::string text_;
  const PlacementStrategy* strategy_;
};

}  // namespace moeplan::planner
