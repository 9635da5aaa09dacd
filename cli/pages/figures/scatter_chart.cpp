#include "cli/pages/figures/scatter_chart.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "cli/pages/figures/bar_chart.hpp"
#include "cli/pages/figures/figure.hpp"

namespace moeplan::cli {

namespace {

/// A rectangle in pixels that a text occupies.
struct TextBox {
  double left, top, right, bottom;
  [[nodiscard]] bool overlaps(const TextBox& o) const {
    return left < o.right && o.left < right && top < o.bottom && o.top < bottom;
  }
};

/// Draws a chart on one canvas.
class ScatterDrawing {
 public:
  ScatterDrawing(const ScatterChart& chart, double width) : chart_(chart), canvas_(width), x_(chart.x), y_(chart.y) {
    const double top = draw_keys(canvas_, chart.keys, 0) + 22;
    std::vector<double> ticks = y_ticks();
    double labels = 0;
    for (const double v : ticks) labels = std::max(labels, text_width(chart.y_tick(v), 11));
    x_.from = labels + 10;
    x_.to = width - 8;
    y_.to = top;
    y_.from = top + (is_narrow(width) ? 300 : chart.height);
  }

  Canvas drawn() {
    canvas_.text(0, y_.to - 10, "start", chart_.y_title, "m");
    for (const ScatterBand& b : chart_.bands) canvas_.path(clipped_outline(b.outline), b.style);
    for (const double v : y_ticks()) {
      canvas_.line(x_.from, y_.pixel(v), x_.to, y_.pixel(v), "l-grid");
      const double baseline = std::min(y_.pixel(v) + 4, y_.from + 1);  // above the texts of the horizontal axis
      canvas_.text(x_.from - 8, baseline, "end", chart_.y_tick(v), "m s");
    }
    const double below = draw_x_axis(canvas_, x_, y_.from, y_.from - y_.to, chart_.x_tick, chart_.x_title);
    for (const ScatterLine& l : chart_.lines) draw_line(l);
    draw_points();
    for (const ScatterPoint& p : chart_.points) draw_label(p);
    canvas_.set_height(below);
    return std::move(canvas_);
  }

 private:
  [[nodiscard]] std::vector<double> y_ticks() const { return y_.ticks(is_narrow(canvas_.width()) ? 6 : 8); }

  [[nodiscard]] std::string clipped_outline(const std::vector<std::pair<double, double>>& outline) const {
    std::string out;
    for (const auto& [x, y] : outline) {
      out += fmt::format("{}{} {}", out.empty() ? 'M' : 'L', pixels(x_.pixel(std::clamp(x, x_.least, x_.most))),
                         pixels(y_.pixel(std::clamp(y, y_.least, y_.most))));
    }
    return out + "z";
  }

  void draw_line(const ScatterLine& line) {
    std::string data;
    for (const auto& [x, y] : line.points)
      data += fmt::format("{}{} {}", data.empty() ? 'M' : 'L', pixels(x_.pixel(x)), pixels(y_.pixel(y)));
    canvas_.path(data, line.style);
    if (line.label.empty() || line.points.empty()) return;
    const auto& [x, y] = line.points.back();
    const double right = std::min(x_.pixel(x), x_.to - 2), above = y_.pixel(y) - 6;
    canvas_.text(right, above, "end", line.label, "m s");
    taken_.push_back({right - text_width(line.label, 11), above - 11, right, above + 3});
  }

  void draw_points() {
    constexpr std::size_t kMostCircles = 600;  // beyond, points of a style and size are one path without tips
    std::map<std::pair<std::string, double>, std::string> paths;
    for (const ScatterPoint& p : chart_.points) {
      const double x = x_.pixel(p.x), y = y_.pixel(p.y);
      if (chart_.points.size() <= kMostCircles || !p.label.empty()) {
        canvas_.circle(x, y, p.radius, fmt::format("f-{}{}", p.style, p.label.empty() ? " faint" : ""), p.tip);
      } else {
        paths[{p.style, p.radius}] += fmt::format("M{} {}h0", pixels(x), pixels(y));
      }
      if (!p.label.empty()) taken_.push_back({x - p.radius, y - p.radius, x + p.radius, y + p.radius});
    }
    for (const auto& [key, data] : paths) canvas_.path(data, fmt::format("l-{} dots", key.first));
  }

  void draw_label(const ScatterPoint& p) {
    if (p.label.empty()) return;
    const double x = x_.pixel(p.x), y = y_.pixel(p.y), w = text_width(p.label, 11), d = p.radius + 4;
    const std::array<std::pair<double, double>, 8> places{{{x + d, y + 4},
                                                           {x - d - w, y + 4},
                                                           {x - w / 2, y - d},
                                                           {x - w / 2, y + d + 9},
                                                           {x + d, y - d},
                                                           {x + d, y + d + 9},
                                                           {x - d - w, y - d},
                                                           {x - d - w, y + d + 9}}};
    for (const auto& [left, baseline] : places) {
      const TextBox box{left, baseline - 10, left + w, baseline + 3};
      const bool is_inside = box.left >= x_.from && box.right <= x_.to && box.top >= y_.to && box.bottom <= y_.from;
      if (!is_inside || std::any_of(taken_.begin(), taken_.end(), [&](const TextBox& o) { return box.overlaps(o); }))
        continue;
      taken_.push_back(box);
      canvas_.text(left, baseline, "start", p.label, "s");
      return;
    }
  }

  const ScatterChart& chart_;
  Canvas canvas_;
  Scale x_, y_;
  std::vector<TextBox> taken_;
};

}  // namespace

Canvas draw_scatter(const ScatterChart& chart, double width) { return ScatterDrawing(chart, width).drawn(); }

}  // namespace moeplan::cli
