#include "cli/pages/figures/figure.hpp"

#include <fmt/format.h>

#include "cli/pages/figures/palette.hpp"
#include "cli/pages/figures/svg_parts.hpp"

namespace moeplan::cli {

namespace {

std::string figure_file(const std::string& title, const Canvas& drawing) {
  constexpr double kMargin = 24, kTitle = 40;
  const double width = drawing.width() + 2 * kMargin, height = drawing.height() + kTitle + kMargin;
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fig\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
      "<style>\n{2}</style>\n<rect width=\"{0}\" height=\"{1}\" class=\"f-page\"/>\n"
      "<text x=\"{3}\" y=\"28\" class=\"h\">{4}</text>\n<g transform=\"translate({3} {5})\">\n{6}</g>\n</svg>\n",
      pixels(width), pixels(height), figure_style(), pixels(kMargin), xml_text(title), pixels(kTitle),
      drawing.content());
}

}  // namespace

Figure make_figure(const std::string& name, const std::string& title, const std::string& note,
                   const std::function<Canvas(double width)>& draw) {
  const Canvas wide = draw(kWideFigure);
  return {.name = name,
          .title = title,
          .note = note,
          .wide = wide.element(title, "wide"),
          .narrow = draw(kNarrowFigure).element(title, "narrow"),
          .file = figure_file(title, wide)};
}

}  // namespace moeplan::cli
