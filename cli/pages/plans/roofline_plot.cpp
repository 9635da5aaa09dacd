#include "cli/pages/plans/roofline_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace moeplan::cli {

namespace {

constexpr int kColumns = 72, kRows = 16;

/// The range of the plot in powers of two of R_CC.
struct Window {
  double least = -3, most = 3;

  double ratio(int column) const { return std::exp2(least + (most - least) * column / (kColumns - 1)); }
  int column(double ratio) const {
    if (!std::isfinite(ratio)) return kColumns - 1;
    const double share = (std::log2(ratio) - least) / (most - least);
    return std::clamp(static_cast<int>(std::lround(share * (kColumns - 1))), 0, kColumns - 1);
  }
};

int row(double share) { return std::clamp(static_cast<int>(std::lround((1 - share) * (kRows - 1))), 0, kRows - 1); }

}  // namespace

std::string roofline_plot(std::span<const planner::LayerPoint> points) {
  FlopsPerSecond highest{};
  Window window;
  for (const planner::LayerPoint& p : points) {
    highest = std::max(highest, p.roofline.computing);
    if (!std::isfinite(p.roofline.ratio) || p.roofline.ratio <= 0) continue;
    window.least = std::min(window.least, std::floor(std::log2(p.roofline.ratio)));
    window.most = std::max(window.most, std::ceil(std::log2(p.roofline.ratio)));
  }
  if (highest == FlopsPerSecond(0)) return "";
  std::vector<std::string> lines(kRows, std::string(kColumns, ' '));
  const auto cell = [&](int line, int column) -> char& {
    return lines[static_cast<std::size_t>(line)][static_cast<std::size_t>(column)];
  };
  for (int c = 0; c < kColumns; ++c) {
    const double r = window.ratio(c);
    cell(row(r / (r + 1)), c) = '-';
    cell(row(std::min(1.0, r)), c) = '=';
  }
  for (std::size_t i = points.size(); i-- > 0;) {
    const DdlRoofline& p = points[i].roofline;
    const std::string number = fmt::format("{}", i + 1);
    const int column = std::min(window.column(p.ratio), kColumns - static_cast<int>(number.size()));
    const int line = row(p.average / highest);
    for (std::size_t k = 0; k < number.size(); ++k) cell(line, column + static_cast<int>(k)) = number[k];
  }
  std::string out;
  for (std::size_t l = 0; l < lines.size(); ++l) {
    std::string& line = lines[l];
    line.erase(line.find_last_not_of(' ') + 1);
    out += fmt::format("  {:>5} |{}\n", l == 0 ? "100%" : l + 1 == lines.size() ? "0%" : "", line);
  }
  const std::string left = fmt::format("R_CC = {:.3g}", std::exp2(window.least));
  const std::string right = fmt::format("{:.3g}", std::exp2(window.most));
  std::string axis(kColumns, ' ');
  axis.replace(0, left.size(), left);
  axis[static_cast<std::size_t>(window.column(1))] = '1';
  axis.replace(axis.size() - right.size(), right.size(), right);
  return out + fmt::format("  {:>5} +{}\n  {:>5}  {}\n", "", std::string(kColumns, '.'), "", axis);
}

}  // namespace moeplan::cli
