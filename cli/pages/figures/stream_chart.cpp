#include "cli/pages/figures/stream_chart.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/pages/figures/bar_chart.hpp"
#include "cli/pages/figures/figure.hpp"
#include "cli/pages/figures/scale.hpp"

namespace moeplan::cli {

namespace {

constexpr double kStreamRow = 30, kStreamBar = 24;

/// Spans on a light fill have dark text.
bool is_light(const std::string& style) { return style == "optimizer" || style == "runtime" || style == "hidden"; }

void draw_stream(Canvas& canvas, const StreamRow& row, const Scale& x, double y) {
  canvas.rectangle(x.from, y, x.to - x.from, kStreamBar, "f-lane");
  canvas.text(0, y + kStreamBar / 2 + 4, "start", row.label);
  for (const StreamSpan& s : row.spans) {
    const double from = x.pixel(s.from), w = x.pixel(s.to) - from;
    canvas.rectangle(from, y, std::max(w - std::min(0.8, 0.15 * w), 0.3), kStreamBar, "f-" + s.style, s.tip);
    if (text_width(s.label, 11) + 8 <= w)
      canvas.text(from + w / 2, y + kStreamBar / 2 + 4, "middle", s.label, is_light(s.style) ? "s on-light" : "s on");
  }
}

}  // namespace

Canvas draw_streams(const StreamChart& chart, double width) {
  Canvas canvas(width);
  double labels = 0, longest = 0;
  for (const StreamPanel& p : chart.panels) {
    for (const StreamRow& r : p.rows) {
      labels = std::max(labels, text_width(r.label));
      for (const StreamSpan& s : r.spans) longest = std::max(longest, s.to);
    }
  }
  const Scale x{
      .is_logarithmic = false, .least = 0, .most = std::max(longest, 1e-12), .from = labels + 8, .to = width - 2};
  double y = draw_keys(canvas, chart.keys, 0);
  for (const StreamPanel& p : chart.panels) {
    canvas.text(0, y + 16, "start", fitted(p.title, width, 13), "b");
    y += 26;
    const double height = kStreamRow * static_cast<double>(p.rows.size());
    const double below = draw_x_axis(canvas, x, y + height, height, time_tick, "");
    for (std::size_t i = 0; i < p.rows.size(); ++i)
      draw_stream(canvas, p.rows[i], x, y + kStreamRow * static_cast<double>(i));
    y = below + 6;
  }
  canvas.set_height(y);
  return canvas;
}

}  // namespace moeplan::cli
