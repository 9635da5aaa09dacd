#include "cli/pages/reproduction_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "cli/pages/figures/svg_parts.hpp"

namespace moeplan::cli {

namespace {

using reproduction::Agreement;
using reproduction::RowResult;

constexpr double kNames = 16, kPlaces = 220, kPaper = 470, kOurs = 540, kFrom = 570, kTo = 930;  // pixels
constexpr double kFirstRow = 84, kRowHeight = 21;
constexpr double kEnd = 4;  // the axis goes from 1 / kEnd to kEnd

/// The place of a ratio on the axis, at its ends for those beyond.
double pixel_of(double ratio) {
  const double place = std::log(std::clamp(ratio, 1 / kEnd, kEnd)) / std::log(kEnd);
  return kFrom + (kTo - kFrom) * (place + 1) / 2;
}

const char* colour_of(const RowResult& r) {
  if (!r.row.is_scored) return "#888";
  return r.passes ? "#009e73" : "#d55e00";
}

/// The ratios within which a row passes.
std::pair<double, double> tolerated(const RowResult& r) {
  const auto& [agreement, within, text] = r.row.tolerance;
  if (agreement == Agreement::Within) return {1 - within, 1 + within};
  return {1, 1};
}

std::string row_of(const RowResult& r, double y) {
  std::string place = r.row.place;
  constexpr std::size_t kMostPlace = 34;
  if (place.size() > kMostPlace) place = place.substr(0, kMostPlace - 3) + "...";
  std::string out = svg_text(kNames, y + 4.5, "start", r.row.id) + svg_text(kPlaces, y + 4.5, "start", place) +
                    svg_text(kPaper, y + 4.5, "end", fmt::format("{:.4g}", r.row.value)) +
                    svg_text(kOurs, y + 4.5, "end", r.predicted ? fmt::format("{:.4g}", *r.predicted) : "-");
  const auto [low, high] = tolerated(r);
  out += fmt::format("<path stroke=\"#cde\" stroke-width=\"12\" d=\"M{:.1f} {:g}H{:.1f}\"/>\n", pixel_of(low), y,
                     std::max(pixel_of(high), pixel_of(low) + 1));
  if (!r.predicted || r.row.value <= 0) return out;
  return out + fmt::format("<circle cx=\"{:.1f}\" cy=\"{:g}\" r=\"4.5\" fill=\"{}\"/>\n",
                           pixel_of(*r.predicted / r.row.value), y, colour_of(r));
}

std::string axis(double bottom) {
  constexpr std::array<std::pair<double, const char*>, 7> kMarks{
      {{0.25, "1/4"}, {0.5, "1/2"}, {0.8, "0.8"}, {1, "1"}, {1.25, "1.25"}, {2, "2"}, {4, "4"}}};
  std::string out;
  for (const auto& [ratio, label] : kMarks) {
    out += fmt::format("<path stroke=\"{}\" d=\"M{:.1f} {:g}V{:g}\"/>\n", ratio == 1 ? "#222" : "#ddd", pixel_of(ratio),
                       kFirstRow - 14, bottom);
    out += svg_text(pixel_of(ratio), kFirstRow - 20, "middle", label);
  }
  return out;
}

}  // namespace

std::string reproduction_plot(const reproduction::PaperResult& result) {
  const double bottom = kFirstRow + kRowHeight * static_cast<double>(result.rows.size()) - 7;
  const auto head = [](double x, const char* anchor, const char* text) {
    return svg_text(x, kFirstRow - 20, anchor, text, " fill=\"#666\"");
  };
  std::string out = svg_text(kNames, 28, "start", result.title, kSvgTitle) +
                    svg_text(kTo, 48, "end",
                             fmt::format("ours / paper; {} of {} scored rows pass (green); grey: calibrated",
                                         result.passed(), result.scored()),
                             " fill=\"#666\"") +
                    head(kNames, "start", "row") + head(kPlaces, "start", "where") + head(kPaper, "end", "paper") +
                    head(kOurs, "end", "ours") + axis(bottom);
  for (std::size_t i = 0; i < result.rows.size(); ++i)
    out += row_of(result.rows[i], kFirstRow + kRowHeight * static_cast<double>(i));
  return svg_document(kTo + 24, bottom + 20, out);
}

}  // namespace moeplan::cli
