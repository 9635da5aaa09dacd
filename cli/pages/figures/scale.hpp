// Axes of figures: from values to pixels, with round numbers as ticks.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/pages/figures/canvas.hpp"

namespace moeplan::cli {

/// An axis from the value `least` at pixel `from` to `most` at pixel `to`.
struct Scale {
  bool is_logarithmic = false;
  double least = 0, most = 1;
  double from = 0, to = 1;
  std::vector<double> marks = {};  // the ticks, if they are given

  [[nodiscard]] double pixel(double value) const;
  /// Round values within the range, at most about `count`: 1, 2 or 5 times a power of ten; logarithmic: powers of ten,
  /// with 2 and 5 in short ranges.
  [[nodiscard]] std::vector<double> ticks(int count) const;
};

/// The range of the values with a margin, ending at round numbers. A logarithmic one requires positive values.
[[nodiscard]] Scale scale_over(const std::vector<double>& values, bool is_logarithmic);

using TickText = std::function<std::string(double)>;

/// Ticks in a suitable unit, without digits that are zero: "20 ms", "1.5 PFLOP/s", "64".
[[nodiscard]] std::string time_tick(double seconds);
[[nodiscard]] std::string flops_tick(double flops_per_second);
[[nodiscard]] std::string number_tick(double value);
[[nodiscard]] std::string percent_tick(double share);

/// Grid lines over `plot_height` above y, tick texts below, and the title of the axis below them. Returns the y below.
double draw_x_axis(Canvas& canvas, const Scale& scale, double y, double plot_height, const TickText& text,
                   const std::string& title);

}  // namespace moeplan::cli
