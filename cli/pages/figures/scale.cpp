#include "cli/pages/figures/scale.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace moeplan::cli {

namespace {

/// The least of 1, 2 and 5 times a power of ten that is at least `value`.
double round_step(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

template <std::size_t N>
std::string in_unit(double value, const std::array<std::pair<double, const char*>, N>& units) {
  if (value == 0) return "0";
  for (const auto& [size, name] : units) {
    if (std::abs(value) >= size * (1 - 1e-9)) return fmt::format("{:.4g} {}", value / size, name);
  }
  return fmt::format("{:.4g} {}", value / units.back().first, units.back().second);
}

}  // namespace

double Scale::pixel(double value) const {
  const auto place = [&](double v) { return is_logarithmic ? std::log10(v) : v; };
  const double low = place(least), high = place(most);
  return from + (to - from) * (place(value) - low) / (high - low);
}

std::vector<double> Scale::ticks(int count) const {
  if (!marks.empty()) return marks;
  std::vector<double> out;
  if (!is_logarithmic) {
    const double step = round_step((most - least) / std::max(count, 1));
    for (double i = std::ceil(least / step - 1e-9) + 0.0; i * step <= most + 1e-9 * step; ++i)
      out.push_back(i * step + 0.0);
    return out;
  }
  const double low = std::floor(std::log10(least)), decades = std::log10(most) - std::log10(least);
  const double step = std::max(1.0, std::floor(decades / count));
  const std::vector<double> factors = decades * 3 <= count ? std::vector{1.0, 2.0, 5.0} : std::vector{1.0};
  for (double e = low; std::pow(10, e) <= most * (1 + 1e-9); e += step) {
    for (const double f : factors) {
      const double value = f * std::pow(10, e);
      if (value >= least * (1 - 1e-9) && value <= most * (1 + 1e-9)) out.push_back(value);
    }
  }
  return out;
}

Scale scale_over(const std::vector<double>& values, bool is_logarithmic) {
  if (values.empty()) return {.is_logarithmic = is_logarithmic, .least = 1, .most = 10};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (is_logarithmic) return {.is_logarithmic = true, .least = *low / 1.25, .most = *high * 1.25};
  const double span = *high > *low ? *high - *low : std::max(std::abs(*high), 1.0);
  const double step = round_step(span / 5);
  const double least = std::floor((*low - 0.04 * span) / step) * step;
  return {.is_logarithmic = false,
          .least = *low >= 0 ? std::max(least, 0.0) : least,
          .most = std::ceil((*high + 0.04 * span) / step) * step};
}

std::string time_tick(double seconds) {
  return in_unit(seconds, std::array<std::pair<double, const char*>, 5>{
                              {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}, {1e-12, "ps"}}});
}
std::string flops_tick(double rate) {
  return in_unit(rate, std::array<std::pair<double, const char*>, 5>{
                           {{1e15, "PFLOP/s"}, {1e12, "TFLOP/s"}, {1e9, "GFLOP/s"}, {1e6, "MFLOP/s"}, {1, "FLOP/s"}}});
}
std::string number_tick(double value) {
  if (std::abs(value) < 1e4) return fmt::format("{:.4g}", value);
  return in_unit(value, std::array<std::pair<double, const char*>, 3>{{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}}});
}
std::string percent_tick(double share) { return fmt::format("{:.4g}%", 100 * share); }

double draw_x_axis(Canvas& canvas, const Scale& scale, double y, double plot_height, const TickText& text,
                   const std::string& title) {
  const int count = std::max(2, static_cast<int>(std::abs(scale.to - scale.from) / 90));
  double last_end = -1e9;
  for (const double v : scale.ticks(count)) {
    const double x = scale.pixel(v);
    canvas.line(x, y - plot_height, x, y, "l-grid");
    const std::string shown = text(v);
    const double half = text_width(shown, 11) / 2;
    const double middle = std::clamp(x, half, canvas.width() - half);
    if (middle - half < last_end + 6) continue;
    canvas.text(middle, y + 15, "middle", shown, "m s");
    last_end = middle + half;
  }
  if (title.empty()) return y + 22;
  canvas.text(std::min((scale.from + scale.to) / 2, canvas.width() - text_width(title) / 2), y + 34, "middle", title,
              "m");
  return y + 42;
}

}  // namespace moeplan::cli
