#include "cli/pages/figures/bar_chart.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/pages/figures/figure.hpp"

namespace moeplan::cli {

namespace {

/// Where the parts of a bar chart are, in pixels.
struct BarLayout {
  bool has_labels_above = false;
  double labels = 0, values = 0;  // widths of the columns
  double row = 26, bar = 16;      // heights
  double top = 0;                 // of the first row
};

BarLayout layout_of(const BarChart& chart, double width) {
  BarLayout out;
  for (const Bar& b : chart.bars) {
    out.labels = std::max(out.labels, text_width(b.label));
    out.values = std::max(out.values, text_width(b.value));
  }
  out.has_labels_above = is_narrow(width);
  if (out.has_labels_above) return {.has_labels_above = true, .labels = 0, .values = 0, .row = 38, .bar = 13};
  if (chart.bars.size() > 24) {
    out.row = 20;
    out.bar = 13;
  }
  out.labels = std::min(out.labels, 280.0) + 12;
  out.values += 12;
  return out;
}

void draw_bar(Canvas& canvas, const BarChart& chart, const Bar& bar, const BarLayout& layout, const Scale& x,
              double y) {
  const double top = layout.has_labels_above ? y + 20 : y + (layout.row - layout.bar) / 2;
  const std::string style = bar.is_bold ? "b" : "";
  const double baseline = layout.has_labels_above ? y + 13 : y + layout.row / 2 + 4;
  const double label_width = layout.has_labels_above ? canvas.width() - text_width(bar.value) - 12 : layout.labels - 8;
  const bool is_small = !bar.is_bold && text_width(bar.label) > label_width;
  canvas.text(0, baseline, "start",
              fitted(bar.label, label_width,
                     bar.is_bold ? 13
                     : is_small  ? 11
                                 : 12),
              is_small ? "s" : style);
  canvas.text(canvas.width(), baseline, "end", bar.value, style);
  for (const BarPart& p : bar.parts) {
    const double from = x.pixel(std::clamp(std::min(p.from, p.to), chart.least, chart.most));
    const double to = x.pixel(std::clamp(std::max(p.from, p.to), chart.least, chart.most));
    canvas.rectangle(from, top, std::max(to - from, p.to != p.from ? 0.75 : 0.0), layout.bar, "f-" + p.style, p.tip);
  }
}

/// The limit over all bars; over each bar alone where texts are between them.
void draw_limit(Canvas& canvas, const BarLimit& limit, std::size_t bars, const BarLayout& layout, double at) {
  const double half = text_width(limit.label) / 2;
  canvas.text(std::clamp(at, half, canvas.width() - half), layout.top - 7, "middle", limit.label);
  if (!layout.has_labels_above)
    return canvas.line(at, layout.top - 2, at, layout.top + layout.row * static_cast<double>(bars), "l-mark dash");
  for (std::size_t i = 0; i < bars; ++i) {
    const double top = layout.top + layout.row * static_cast<double>(i) + 18;
    canvas.line(at, top, at, top + layout.bar + 4, "l-mark thick");
  }
}

/// The lines from the end of each bar to the next one.
void draw_joins(Canvas& canvas, const BarChart& chart, const BarLayout& layout, const Scale& x) {
  for (std::size_t i = 0; i + 1 < chart.bars.size(); ++i) {
    if (chart.bars[i].parts.empty()) continue;
    const double at = x.pixel(chart.bars[i].parts.back().to);
    const double y = layout.top + layout.row * static_cast<double>(i) + layout.row / 2;
    canvas.line(at, y, at, y + layout.row, "l-muted");
  }
}

}  // namespace

double draw_keys(Canvas& canvas, const std::vector<std::pair<std::string, std::string>>& keys, double y) {
  constexpr double kSquare = 11, kGap = 18, kLine = 20;
  double x = 0;
  for (const auto& [style, meaning] : keys) {
    const double width = kSquare + 6 + text_width(meaning);
    if (x > 0 && x + width > canvas.width()) {
      x = 0;
      y += kLine;
    }
    canvas.rectangle(x, y + 2, kSquare, kSquare, "f-" + style);
    canvas.text(x + kSquare + 6, y + 12, "start", meaning, "m");
    x += width + kGap;
  }
  return keys.empty() ? y : y + kLine + 4;
}

Canvas draw_bars(const BarChart& chart, double width) {
  Canvas canvas(width);
  BarLayout layout = layout_of(chart, width);
  layout.top = draw_keys(canvas, chart.keys, 0) + (chart.limit ? 18 : 0);
  Scale x{.is_logarithmic = false, .least = chart.least, .most = chart.most, .from = layout.labels, .to = width};
  x.to -= layout.values;
  const double height = layout.row * static_cast<double>(chart.bars.size());
  const double below = draw_x_axis(canvas, x, layout.top + height, height, chart.tick, chart.axis);
  if (chart.is_joined && !layout.has_labels_above) draw_joins(canvas, chart, layout, x);
  for (std::size_t i = 0; i < chart.bars.size(); ++i)
    draw_bar(canvas, chart, chart.bars[i], layout, x, layout.top + layout.row * static_cast<double>(i));
  if (chart.least < 0) canvas.line(x.pixel(0), layout.top, x.pixel(0), layout.top + height, "l-muted");
  if (chart.limit) draw_limit(canvas, *chart.limit, chart.bars.size(), layout, x.pixel(chart.limit->at));
  canvas.set_height(below);
  return canvas;
}

}  // namespace moeplan::cli
