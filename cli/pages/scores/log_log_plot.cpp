#include "cli/pages/scores/log_log_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cli/pages/figures/svg_parts.hpp"

namespace moeplan::cli {

namespace {

constexpr double kWidth = 770, kHeight = 420;
constexpr double kLeft = 76, kRight = 560, kTop = 48, kBottom = 366;  // of the axes; the legend is to their right
constexpr std::array<const char*, 8> kColours{"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#8c6d00", "#56b4e9", "#5e3c99", "#555555"};

/// A logarithmic axis: exponents of its ends and the steps of its labels.
struct Axis {
  double least, most;  // whole numbers
  double step;
  double from, to;  // pixels

  [[nodiscard]] double pixel(double exponent) const { return from + (to - from) * (exponent - least) / (most - least); }
};

/// The axis from the least exponent to the most, with at most `labels` steps.
Axis axis_of(double least, double most, int labels, double from, double to) {
  double low = std::floor(least), high = std::max(std::ceil(most), low + 1);
  const double step = std::max(1.0, std::ceil((high - low) / labels));
  low = std::floor(low / step) * step;
  high = std::ceil(high / step) * step;
  return {low, high, step, from, to};
}

std::string size_label(double exponent) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  const auto unit = static_cast<std::size_t>(std::clamp(std::floor(exponent / 10), 0.0, 4.0));
  return fmt::format("{:g} {}", std::exp2(exponent - 10 * static_cast<double>(unit)), kUnits[unit]);
}

std::string time_label(double exponent) {
  constexpr std::array<const char*, 4> kUnits{"ns", "us", "ms", "s"};
  const auto unit = static_cast<std::size_t>(std::clamp(std::floor((exponent + 9) / 3), 0.0, 3.0));
  return fmt::format("{:g} {}", std::pow(10, exponent + 9 - 3 * static_cast<double>(unit)), kUnits[unit]);
}

class Plot {
 public:
  explicit Plot(const LogLogPlot& plot) : plot_(plot) {
    double least_x = std::numeric_limits<double>::infinity(), most_x = -least_x, least_y = least_x, most_y = -least_x;
    for (const PlotSeries& s : plot.series) {
      for (const auto* points : {&s.measured, &s.predicted}) {
        for (const PlotPoint& p : *points) {
          least_x = std::min(least_x, std::log2(p.size.value()));
          most_x = std::max(most_x, std::log2(p.size.value()));
          least_y = std::min(least_y, std::log10(p.time.value()));
          most_y = std::max(most_y, std::log10(p.time.value()));
        }
      }
    }
    x_ = axis_of(least_x, most_x, 8, kLeft, kRight);
    y_ = axis_of(least_y, most_y, 8, kBottom, kTop);
  }

  [[nodiscard]] std::string document() const {
    std::string out = svg_text(kLeft, 28, "start", plot_.title, kSvgTitle) + axes();
    for (std::size_t i = 0; i < plot_.series.size(); ++i) out += lines(plot_.series[i], kColours[i % kColours.size()]);
    for (std::size_t i = 0; i < plot_.series.size(); ++i) out += dots(plot_.series[i], kColours[i % kColours.size()]);
    return svg_document(kWidth, kHeight, out + legend());
  }

 private:
  [[nodiscard]] std::string axes() const {
    std::string grid = "<path fill=\"none\" stroke=\"#ddd\" d=\"", labels;
    for (double e = x_.least; e <= x_.most; e += x_.step) {
      grid += fmt::format("M{:.1f} {:g}V{:g}", x_.pixel(e), kTop, kBottom);
      labels += svg_text(x_.pixel(e), kBottom + 20, "middle", size_label(e));
    }
    for (double e = y_.least; e <= y_.most; e += y_.step) {
      grid += fmt::format("M{:g} {:.1f}H{:g}", kLeft, y_.pixel(e), kRight);
      labels += svg_text(kLeft - 8, y_.pixel(e) + 4.5, "end", time_label(e));
    }
    return grid + "\"/>\n" +
           fmt::format("<path fill=\"none\" stroke=\"#222\" d=\"M{:g} {:g}V{:g}H{:g}\"/>\n", kLeft, kTop, kBottom,
                       kRight) +
           labels + svg_text((kLeft + kRight) / 2, kBottom + 44, "middle", "message size, as nccl-tests counts it");
  }

  [[nodiscard]] std::string lines(const PlotSeries& s, const char* colour) const {
    std::string out;
    for (const PlotPoint& p : s.predicted) out += fmt::format("{}{}", out.empty() ? 'M' : 'L', place(p));
    if (out.empty()) return out;
    return fmt::format("<path fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" d=\"{}\"/>\n", colour, out);
  }

  /// All dots as one path: lines of no length with round ends.
  [[nodiscard]] std::string dots(const PlotSeries& s, const char* colour) const {
    std::string out;
    for (const PlotPoint& p : s.measured) out += fmt::format("M{}h0", place(p));
    return fmt::format(
        "<path stroke=\"{}\" stroke-width=\"5.5\" stroke-linecap=\"round\" stroke-opacity=\"0.7\" "
        "d=\"{}\"/>\n",
        colour, out);
  }

  [[nodiscard]] std::string place(const PlotPoint& p) const {
    return fmt::format("{:.1f} {:.1f}", x_.pixel(std::log2(p.size.value())), y_.pixel(std::log10(p.time.value())));
  }

  [[nodiscard]] std::string legend() const {
    constexpr double kMark = kRight + 18, kText = kRight + 48, kLine = 22;
    double y = kTop + 8;
    std::string out;
    const auto entry = [&](const char* colour, bool has_dot, bool has_line, const std::string& label) {
      if (has_line) {
        out += fmt::format("<path stroke=\"{}\" stroke-width=\"1.6\" d=\"M{:g} {:g}h22\"/>\n", colour, kMark, y);
      }
      if (has_dot)
        out += fmt::format("<circle cx=\"{:g}\" cy=\"{:g}\" r=\"2.8\" fill=\"{}\"/>\n", kMark + 11, y, colour);
      out += svg_text(kText, y + 4.5, "start", label);
      y += kLine;
    };
    entry("#222", true, false, "measured");
    entry("#222", false, true, "predicted");
    y += kLine / 2;
    for (std::size_t i = 0; i < plot_.series.size(); ++i) {
      entry(kColours[i % kColours.size()], true, true, plot_.series[i].label);
    }
    return out;
  }

  const LogLogPlot& plot_;
  Axis x_{}, y_{};
};

}  // namespace

std::string svg(const LogLogPlot& plot) { return Plot(plot).document(); }

}  // namespace moeplan::cli
