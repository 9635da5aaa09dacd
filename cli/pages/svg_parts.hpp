// The parts that all plots have in common: SVG without fonts or scripts of its own, on a white background.
#pragma once

#include <string>

namespace moeplan::cli {

/// A document of this size in pixels around the content.
[[nodiscard]] std::string svg_document(double width, double height, const std::string& content);

/// A text at a place, with `anchor` start, middle or end; `more` are attributes, with a space before each.
[[nodiscard]] std::string svg_text(double x, double y, const char* anchor, const std::string& content,
                                   const char* more = "");

inline constexpr const char* kSvgTitle = " font-size=\"16\" font-weight=\"bold\"";

}  // namespace moeplan::cli
