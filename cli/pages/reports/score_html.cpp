#include "cli/pages/reports/score_html.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/pages/figures/bar_chart.hpp"
#include "cli/pages/figures/scatter_chart.hpp"
#include "cli/pages/page_parts.hpp"
#include "model/base/diagnostics.hpp"

namespace moeplan::cli {

namespace {

using ScoreJson = nlohmann::json;

constexpr double kInnerBand = 0.1, kOuterBand = 0.25;

/// One predicted time with its measurement.
struct Compared {
  double measured, predicted;
  std::string id;
  [[nodiscard]] double error() const { return predicted / measured - 1; }
};

std::vector<Compared> compared_rows(const ScoreJson& table) {
  std::vector<Compared> out;
  for (const ScoreJson& row : table.at("rows")) {
    const ScoreJson &measured = row.at("measured_s"), &predicted = row.at("predicted_s");
    if (measured.is_number() && predicted.is_number() && measured.get<double>() > 0 && predicted.get<double>() > 0)
      out.push_back({measured.get<double>(), predicted.get<double>(), row.at("id").get<std::string>()});
  }
  return out;
}

double share_within(const std::vector<Compared>& rows, double band) {
  const auto within =
      std::count_if(rows.begin(), rows.end(), [&](const auto& r) { return std::abs(r.error()) <= band; });
  return static_cast<double>(within) / static_cast<double>(rows.size());
}

/// The area in which predictions are off by at most this share, cut where its borders leave the square of the axes.
ScatterBand error_band(const Scale& axis, double band, const char* style) {
  return {{{axis.least, axis.least},
           {axis.least, axis.least * (1 + band)},
           {axis.most / (1 + band), axis.most},
           {axis.most, axis.most},
           {axis.most, axis.most * (1 - band)},
           {axis.least / (1 - band), axis.least}},
          style};
}

Figure error_scatter(const std::string& name, const std::vector<Compared>& rows) {
  ScatterChart chart{.x = {}, .y = {}, .x_title = "measured", .y_title = "predicted"};
  chart.x_tick = chart.y_tick = time_tick;
  std::vector<double> times;
  for (const Compared& r : rows) {
    times.insert(times.end(), {r.measured, r.predicted});
    const bool is_far = std::abs(r.error()) > kOuterBand;
    chart.points.push_back({.x = r.measured,
                            .y = r.predicted,
                            .style = is_far ? "exposed" : "forward",
                            .radius = 3,
                            .tip = fmt::format("{}: measured {}, predicted {} ({})", r.id, human(Seconds(r.measured)),
                                               human(Seconds(r.predicted)), signed_percent(r.error()))});
  }
  chart.x = chart.y = scale_over(times, true);
  chart.bands = {error_band(chart.x, kOuterBand, "f-wide-band"), error_band(chart.x, kInnerBand, "f-band")};
  chart.lines = {{{{chart.x.least, chart.x.least}, {chart.x.most, chart.x.most}}, "l-muted", ""}};
  chart.keys = {{"band", fmt::format("within {:.0f}%", 100 * kInnerBand)},
                {"wide-band", fmt::format("within {:.0f}%", 100 * kOuterBand)},
                {"exposed", "farther off"}};
  chart.height = 520;
  return make_figure(name, "Predicted against measured times",
                     fmt::format("{} rows: {:.0f}% within {:.0f}%, {:.0f}% within {:.0f}%. Below the diagonal, "
                                 "predictions are too short.",
                                 rows.size(), 100 * share_within(rows, kInnerBand), 100 * kInnerBand,
                                 100 * share_within(rows, kOuterBand), 100 * kOuterBand),
                     [&](double width) { return draw_scatter(chart, width); });
}

/// The groups of a table that have errors: those of rows, of runs their classes.
std::vector<std::pair<std::string, ScoreJson>> groups_with_errors(const ScoreJson& table) {
  std::vector<std::pair<std::string, ScoreJson>> out;
  const auto add = [&](const std::string& name, const ScoreJson& summary) {
    if (summary.at("scored").get<std::int64_t>() > 0) out.emplace_back(name, summary);
  };
  if (table.contains("classes")) {
    for (const ScoreJson& c : table.at("classes")) {
      const std::string precision = c.at("precision").get<std::string>();
      add(c.at("cluster").get<std::string>() + (precision.empty() ? "" : ", " + precision), c.at("summary"));
    }
    return out;
  }
  for (const ScoreJson& g : table.at("groups")) add(g.at("name").get<std::string>(), g.at("summary"));
  return out;
}

Figure group_errors(const std::string& name, const std::vector<std::pair<std::string, ScoreJson>>& groups) {
  BarChart chart{.bars = {}, .least = 0, .most = 0, .tick = percent_tick, .axis = "error of time"};
  chart.keys = {{"forward", "median"}, {"optimizer", "90% of rows are within"}};
  for (const auto& [group, s] : groups) {
    const double median = s.at("median_error").get<double>(), p90 = s.at("p90_error").get<double>();
    chart.most = std::max(chart.most, p90);
    chart.bars.push_back({.label = fmt::format("{} ({})", group, s.at("scored").get<std::int64_t>()),
                          .value = fmt::format("{}, {}", in_percent(median), in_percent(p90)),
                          .parts = {{0, p90, "optimizer", ""}, {0, median, "forward", ""}}});
  }
  chart.most = chart.most > 0 ? 1.06 * chart.most : 1;
  return make_figure(name, "Errors by group", "With the number of rows in each group.",
                     [&](double width) { return draw_bars(chart, width); });
}

std::string group_rows(const std::vector<std::pair<std::string, ScoreJson>>& groups) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, s] : groups) {
    const auto percent = [&, summary = &s](const char* key) { return in_percent(summary->at(key).get<double>()); };
    rows.push_back({name, fmt::format("{}", s.at("scored").get<std::int64_t>()), percent("mape"),
                    percent("median_error"), percent("p90_error"), signed_percent(s.at("bias").get<double>())});
  }
  return html_table({{"group"}, {"rows", true}, {"MAPE", true}, {"median", true}, {"P90", true}, {"bias", true}}, rows);
}

ReportSection table_section(const ScoreJson& table, std::size_t number) {
  const ScoreJson& s = table.at("summary");
  const std::string file = std::filesystem::path(table.at("file").get<std::string>()).filename().string();
  ReportSection out{.title = fmt::format("{}: {}", file, table.at("kind").get<std::string>())};
  const std::int64_t scored = s.at("scored").get<std::int64_t>();
  out.paragraphs.push_back(fmt::format("{} rows: {} predicted, {} refused, {} do not fit.",
                                       s.at("n").get<std::int64_t>(), scored, s.at("refused").get<std::int64_t>(),
                                       s.at("infeasible").get<std::int64_t>()));
  const std::vector<Compared> rows = compared_rows(table);
  if (rows.empty()) return out;
  out.paragraphs.push_back(
      fmt::format("Error of time: MAPE {}, median {}, P90 {}, bias {}.", in_percent(s.at("mape").get<double>()),
                  in_percent(s.at("median_error").get<double>()), in_percent(s.at("p90_error").get<double>()),
                  signed_percent(s.at("bias").get<double>())));
  const std::string name = fmt::format("score_{}", number);
  out.figures.push_back(error_scatter(name, rows));
  const auto groups = groups_with_errors(table);
  if (groups.empty()) return out;
  out.figures.push_back(group_errors(name + "_groups", groups));
  out.html = group_rows(groups);
  return out;
}

}  // namespace

Report score_html(const std::string& document, const std::string& file) {
  try {
    const ScoreJson j = ScoreJson::parse(document);
    Report out{.title = "Predicted against measured times",
               .subtitle = "",
               .tiles = {},
               .lead = {},
               .sections = {},
               .data = {}};
    std::size_t scored = 0;
    for (const ScoreJson& table : j.at("tables")) {
      out.sections.push_back(table_section(table, out.sections.size() + 1));
      scored += table.at("summary").at("scored").get<std::size_t>();
    }
    out.subtitle = fmt::format("{} {}, {} predicted rows", out.sections.size(),
                               out.sections.size() == 1 ? "table" : "tables", scored);
    out.lead = {
        "Error is predicted over measured time, less one; MAPE the mean of its magnitude; bias the mean of its "
        "logarithm: negative where predictions are too short."};
    if (out.sections.size() != 1) return out;
    const ScoreJson& s = j.at("tables").at(0).at("summary");
    out.tiles = {{in_percent(s.at("mape").get<double>()), "mean error, MAPE"},
                 {in_percent(s.at("median_error").get<double>()), "median error"},
                 {in_percent(s.at("p90_error").get<double>()), "90% of rows are within"},
                 {signed_percent(s.at("bias").get<double>()), "bias"}};
    return out;
  } catch (const ScoreJson::exception& e) {
    throw InputError(Diagnostic{
        {file},
        "",
        fmt::format("is neither a plan file, a sweep's database nor a document of score --json: {}", e.what())});
  }
}

}  // namespace moeplan::cli
