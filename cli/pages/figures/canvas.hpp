// A drawing surface for figures that are shown in light and dark: elements take their colours from classes of one style
// sheet (palette.hpp), never from attributes.
#pragma once

#include <string>
#include <string_view>

namespace moeplan::cli {

/// A number of pixels as SVG attributes have it: at most two decimals.
[[nodiscard]] std::string pixels(double value);

/// An upper estimate of a text's width in pixels: the widths of DejaVu Sans, wider than most fonts without serifs.
[[nodiscard]] double text_width(std::string_view text, double font_size = 12);

/// The text, cut and with an ellipsis at its end if it is wider than `width`.
[[nodiscard]] std::string fitted(const std::string& text, double width, double font_size = 12);

/// Collects the elements of one figure. `style` are class names. A `tip` is shown by browsers under the pointer.
class Canvas {
 public:
  explicit Canvas(double width) : width_(width) {}

  [[nodiscard]] double width() const { return width_; }
  [[nodiscard]] double height() const { return height_; }
  void set_height(double height) { height_ = height; }

  /// With `anchor` start, middle or end. A text in class "s" has 11 pixels, others 12.
  void text(double x, double y, const char* anchor, const std::string& content, const std::string& style = "");
  void rectangle(double x, double y, double w, double h, const std::string& style, const std::string& tip = "");
  void circle(double x, double y, double radius, const std::string& style, const std::string& tip = "");
  void line(double x1, double y1, double x2, double y2, const std::string& style);
  void path(const std::string& data, const std::string& style);

  /// The drawing as an `svg` element whose further classes are `style`; `label` describes it to screen readers.
  [[nodiscard]] std::string element(const std::string& label, const std::string& style) const;
  [[nodiscard]] const std::string& content() const { return content_; }

 private:
  double width_, height_ = 0;
  std::string content_;
};

/// A rectangle as a part of a path's data: many of them make one element.
[[nodiscard]] std::string path_rectangle(double x, double y, double w, double h);

}  // namespace moeplan::cli
