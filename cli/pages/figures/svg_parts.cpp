#include "cli/pages/figures/svg_parts.hpp"

#include <fmt/format.h>

namespace moeplan::cli {

std::string xml_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string svg_document(double width, double height, const std::string& content) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 {0:g} {1:g}\" "
      "font-family=\"sans-serif\" font-size=\"13\" fill=\"#222\">\n<rect width=\"{0:g}\" height=\"{1:g}\" "
      "fill=\"#fff\"/>\n{2}</svg>\n",
      width, height, content);
}

std::string svg_text(double x, double y, const char* anchor, const std::string& content, const std::string& more) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     xml_text(content));
}

}  // namespace moeplan::cli
