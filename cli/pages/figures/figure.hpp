// A figure of a report, drawn for wide and for narrow windows, and as a file of its own.
#pragma once

#include <functional>
#include <string>

#include "cli/pages/figures/canvas.hpp"

namespace moeplan::cli {

inline constexpr double kWideFigure = 960, kNarrowFigure = 344;  // pixels
[[nodiscard]] constexpr bool is_narrow(double width) { return width < 600; }

struct Figure {
  std::string name;          // of its file, without .svg
  std::string title;         // what it shows
  std::string note;          // how to read it: one or two sentences
  std::string wide, narrow;  // `svg` elements
  std::string file;          // an SVG document with the title and its own style sheet
};

/// Draws a figure by `draw`, for both widths.
[[nodiscard]] Figure make_figure(const std::string& name, const std::string& title, const std::string& note,
                                 const std::function<Canvas(double width)>& draw);

}  // namespace moeplan::cli
