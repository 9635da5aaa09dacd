// Horizontal bars with their labels and values: stacked, floating (a waterfall) or from zero to either side.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/pages/figures/scale.hpp"

namespace moeplan::cli {

/// A part of a bar, in class f-`style`.
struct BarPart {
  double from = 0, to = 0;
  std::string style;
  std::string tip = {};
};

struct Bar {
  std::string label, value;
  std::vector<BarPart> parts;
  bool is_bold = false;
};

/// A limit, as a line over all bars.
struct BarLimit {
  double at = 0;
  std::string label;
};

struct BarChart {
  std::vector<Bar> bars;
  double least = 0, most = 1;  // of the axis
  TickText tick = number_tick;
  std::string axis;
  std::optional<BarLimit> limit = {};
  std::vector<std::pair<std::string, std::string>> keys = {};  // style and what it means
  bool is_joined = false;  // a thin line from the end of each bar to the next: a waterfall
};

/// The chart at this width: labels to the left of bars, in narrow figures above them.
[[nodiscard]] Canvas draw_bars(const BarChart& chart, double width);

/// Coloured squares with their meanings, in lines. Returns the y below.
double draw_keys(Canvas& canvas, const std::vector<std::pair<std::string, std::string>>& keys, double y);

}  // namespace moeplan::cli
