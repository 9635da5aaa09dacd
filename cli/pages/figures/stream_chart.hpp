// Operations on the streams of a GPU over time, with their names where there is room.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/pages/figures/canvas.hpp"

namespace moeplan::cli {

struct StreamSpan {
  double from = 0, to = 0;  // seconds
  std::string label;
  std::string style;  // class f-`style`
  std::string tip;
};

struct StreamRow {
  std::string label;
  std::vector<StreamSpan> spans;
};

/// Rows over a time axis of their own; all panels of a chart have the same scale.
struct StreamPanel {
  std::string title;
  std::vector<StreamRow> rows;
};

struct StreamChart {
  std::vector<StreamPanel> panels;
  std::vector<std::pair<std::string, std::string>> keys;  // style and what it means
};

[[nodiscard]] Canvas draw_streams(const StreamChart& chart, double width);

}  // namespace moeplan::cli
