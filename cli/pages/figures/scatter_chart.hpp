// Points and lines over two axes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/pages/figures/scale.hpp"

namespace moeplan::cli {

struct ScatterPoint {
  double x = 0, y = 0;
  std::string style = "c0";  // class f-`style`
  double radius = 3.5;
  std::string label = {};  // next to the point if there is room
  std::string tip = {};
};

struct ScatterLine {
  std::vector<std::pair<double, double>> points;
  std::string style = "l-muted";  // classes
  std::string label = {};         // near its last point within the axes
};

/// An area between two lines, as a closed polygon.
struct ScatterBand {
  std::vector<std::pair<double, double>> outline;
  std::string style = "f-band";
};

struct ScatterChart {
  Scale x, y;  // pixels are set by draw_scatter()
  TickText x_tick = number_tick, y_tick = number_tick;
  std::string x_title, y_title;
  std::vector<ScatterBand> bands = {};
  std::vector<ScatterLine> lines = {};
  std::vector<ScatterPoint> points = {};
  std::vector<std::pair<std::string, std::string>> keys = {};  // style and what it means
  double height = 380;                                         // of the plot; narrow figures are square
};

/// The chart at this width. Labels of points are placed in the order of the points, each where it covers neither an
/// earlier label nor a labelled point; those that find no place are left out.
[[nodiscard]] Canvas draw_scatter(const ScatterChart& chart, double width);

}  // namespace moeplan::cli
