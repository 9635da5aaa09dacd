// A plot of times over message sizes, both on logarithmic axes, as SVG: dots for measured, lines for predicted times.
#pragma once

#include <string>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::cli {

struct PlotPoint {
  Bytes size;  // > 0
  Seconds time;
};

/// One colour of the plot.
struct PlotSeries {
  std::string label;
  std::vector<PlotPoint> measured;
  std::vector<PlotPoint> predicted;  // ascending sizes
};

struct LogLogPlot {
  std::string title;
  std::vector<PlotSeries> series;  // at most 8 have colours of their own
};

/// The plot as an SVG document on a white background, without fonts or scripts of its own; the same plot gives the same
/// bytes. Requires at least one point.
[[nodiscard]] std::string svg(const LogLogPlot& plot);

}  // namespace moeplan::cli
