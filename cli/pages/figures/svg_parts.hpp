// The parts that all plots have in common: SVG without fonts or scripts of its own.
#pragma once

#include <string>
#include <string_view>

namespace moeplan::cli {

/// The text with the characters escaped that have a meaning in XML and HTML.
[[nodiscard]] std::string xml_text(std::string_view text);

/// A document of this size in pixels around the content, on a white background.
[[nodiscard]] std::string svg_document(double width, double height, const std::string& content);

/// A text at a place, with `anchor` start, middle or end; `more` are attributes, with a space before each.
[[nodiscard]] std::string svg_text(double x, double y, const char* anchor, const std::string& content,
                                   const std::string& more = "");

inline constexpr const char* kSvgTitle = " font-size=\"16\" font-weight=\"bold\"";

}  // namespace moeplan::cli
