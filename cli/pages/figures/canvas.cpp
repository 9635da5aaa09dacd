#include "cli/pages/figures/canvas.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/pages/figures/svg_parts.hpp"

namespace moeplan::cli {

namespace {

/// The width of a character over the font size, rounded up by classes of characters.
double advance_of(char c) {
  constexpr std::string_view kNarrow = "iljI.,:;'|! ", kSmall = "frt()[]-/\"", kWide = "mwMW%@";
  if (kNarrow.find(c) != std::string_view::npos) return 0.36;
  if (kSmall.find(c) != std::string_view::npos) return 0.46;
  if (kWide.find(c) != std::string_view::npos) return 0.98;
  if ((c >= 'A' && c <= 'Z') || c == '+' || c == '=' || c == '<' || c == '>') return 0.78;
  return 0.64;
}

/// Whether the byte continues a character of UTF-8.
bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }

std::string with_tip(const std::string& element, const std::string& tip) {
  if (tip.empty()) return fmt::format("<{}/>\n", element);
  const std::string name = element.substr(0, element.find(' '));
  return fmt::format("<{}><title>{}</title></{}>\n", element, xml_text(tip), name);
}

}  // namespace

std::string pixels(double value) {
  std::string out = fmt::format("{:.2f}", value);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out == "-0" ? "0" : out;
}

double text_width(std::string_view text, double font_size) {
  double sum = 0;
  for (const char c : text) {
    if (!continues_character(c)) sum += advance_of(c);
  }
  return sum * font_size;
}

std::string fitted(const std::string& text, double width, double font_size) {
  if (text_width(text, font_size) <= width) return text;
  std::size_t end = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && continues_character(text[i])) continue;
    if (text_width(std::string_view(text).substr(0, i), font_size) + font_size > width) break;
    end = i;
  }
  return text.substr(0, end) + "\u2026";
}

void Canvas::text(double x, double y, const char* anchor, const std::string& content, const std::string& style) {
  const std::string anchored = std::string_view(anchor) == "start" ? "" : fmt::format(" text-anchor=\"{}\"", anchor);
  content_ += fmt::format("<text x=\"{}\" y=\"{}\"{}{}>{}</text>\n", pixels(x), pixels(y), anchored,
                          style.empty() ? "" : fmt::format(" class=\"{}\"", style), xml_text(content));
}

void Canvas::rectangle(double x, double y, double w, double h, const std::string& style, const std::string& tip) {
  content_ += with_tip(fmt::format("rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" class=\"{}\"", pixels(x),
                                   pixels(y), pixels(std::max(w, 0.0)), pixels(h), style),
                       tip);
}

void Canvas::circle(double x, double y, double radius, const std::string& style, const std::string& tip) {
  content_ += with_tip(
      fmt::format("circle cx=\"{}\" cy=\"{}\" r=\"{}\" class=\"{}\"", pixels(x), pixels(y), pixels(radius), style),
      tip);
}

void Canvas::line(double x1, double y1, double x2, double y2, const std::string& style) {
  path(fmt::format("M{} {}L{} {}", pixels(x1), pixels(y1), pixels(x2), pixels(y2)), style);
}

void Canvas::path(const std::string& data, const std::string& style) {
  if (!data.empty()) content_ += fmt::format("<path d=\"{}\" class=\"{}\"/>\n", data, style);
}

std::string Canvas::element(const std::string& label, const std::string& style) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fig {}\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" "
      "role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
      style, pixels(width_), pixels(height_), pixels(width_), pixels(height_), xml_text(label), content_);
}

std::string path_rectangle(double x, double y, double w, double h) {
  return fmt::format("M{} {}h{}v{}h-{}z", pixels(x), pixels(y), pixels(w), pixels(h), pixels(w));
}

}  // namespace moeplan::cli
