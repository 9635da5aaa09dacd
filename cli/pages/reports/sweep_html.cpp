#include "cli/pages/reports/sweep_html.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "cli/pages/figures/scatter_chart.hpp"
#include "model/text/unit_text.hpp"
#include "planner/sweep/query/queries.hpp"

namespace moeplan::cli {

namespace {

using sweep::Cell;
using sweep::cell_number;
using sweep::cell_text;
using sweep::ColumnRole;
using sweep::SweepTable;

/// The distinct values of a column in order of their first case, as texts.
std::vector<std::string> values_of(const SweepTable& table, std::size_t column) {
  std::vector<std::string> out;
  for (const std::vector<Cell>& row : table.rows) {
    const std::string text = cell_text(row[column]);
    if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(text);
  }
  return out;
}

/// The column of results that figures show: the time of an iteration if there is one.
std::optional<std::string> main_output(const SweepTable& table) {
  const std::vector<std::string> outputs = table.names(ColumnRole::Output);
  if (std::find(outputs.begin(), outputs.end(), "makespan_s") != outputs.end()) return "makespan_s";
  for (const std::string& name : outputs) {
    const std::size_t at = table.index(name);
    if (std::any_of(table.rows.begin(), table.rows.end(),
                    [&](const auto& r) { return cell_number(r[at]).has_value(); }))
      return name;
  }
  return std::nullopt;
}

TickText tick_of(const std::string& column) {
  if (column.ends_with("_s")) return time_tick;
  if (column.ends_with("_bytes")) return [](double bytes) { return human(Bytes(bytes)); };
  return number_tick;
}

std::string title_of(const std::string& column) {
  if (column == "makespan_s") return "time";
  if (column == "memory_bytes") return "memory of the fullest GPU";
  return column;
}

/// An axis of a sweep with the texts of its values.
struct SweepAxis {
  std::string name;
  std::vector<std::string> values;
};

/// The axes that vary, that with the most values first.
std::vector<SweepAxis> varying_axes(const SweepTable& table) {
  std::vector<SweepAxis> out;
  for (const std::string& name : table.names(ColumnRole::Axis)) {
    std::vector<std::string> values = values_of(table, table.index(name));
    if (values.size() > 1) out.push_back({name, std::move(values)});
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const SweepAxis& a, const SweepAxis& b) { return a.values.size() > b.values.size(); });
  return out;
}

std::size_t position_in(const std::vector<std::string>& values, const std::string& value) {
  return static_cast<std::size_t>(std::find(values.begin(), values.end(), value) - values.begin());
}

/// The least value for each value of two axes, over all others: lines over the first, one for each value of the second.
std::optional<Figure> lines_figure(const SweepTable& table, const std::vector<SweepAxis>& axes,
                                   const std::string& output) {
  constexpr std::size_t kMostLines = 6;
  if (axes.empty()) return std::nullopt;
  const SweepAxis& along = axes[0];
  const bool has_lines = axes.size() > 1 && axes[1].values.size() <= kMostLines;
  const std::size_t x = table.index(along.name), y = table.index(output);
  std::map<std::size_t, std::map<std::size_t, double>> lines;
  std::vector<double> all;
  for (const std::vector<Cell>& row : table.rows) {
    const std::optional<double> value = cell_number(row[y]);
    if (!value || *value <= 0) continue;
    all.push_back(*value);
    const std::size_t line = has_lines ? position_in(axes[1].values, cell_text(row[table.index(axes[1].name)])) : 0;
    auto& at = lines[line];
    const auto [it, is_new] = at.try_emplace(position_in(along.values, cell_text(row[x])), *value);
    if (!is_new) it->second = std::min(it->second, *value);
  }
  if (all.empty()) return std::nullopt;
  ScatterChart chart{.x = {}, .y = {}, .x_title = along.name, .y_title = title_of(output)};
  chart.x = {.least = -0.3, .most = static_cast<double>(along.values.size()) - 0.7};
  for (std::size_t i = 0; i < along.values.size(); ++i) chart.x.marks.push_back(static_cast<double>(i));
  chart.x_tick = [values = along.values](double at) { return values[static_cast<std::size_t>(at)]; };
  chart.y_tick = tick_of(output);
  const auto [least, most] = std::minmax_element(all.begin(), all.end());
  chart.y = scale_over(all, *most > 8 * *least);
  if (!chart.y.is_logarithmic) chart.y.least = 0;
  for (const auto& [line, points] : lines) {
    ScatterLine drawn{.points = {}, .style = fmt::format("l-c{} thick", line)};
    for (const auto& [at, value] : points) {
      drawn.points.emplace_back(static_cast<double>(at), value);
      chart.points.push_back({.x = static_cast<double>(at), .y = value, .style = fmt::format("c{}", line)});
    }
    chart.lines.push_back(std::move(drawn));
    if (has_lines)
      chart.keys.emplace_back(fmt::format("c{}", line), fmt::format("{} {}", axes[1].name, axes[1].values[line]));
  }
  const bool has_others = axes.size() > (has_lines ? 2U : 1U);
  return make_figure("sweep", capitalised(fmt::format("{} over {}", title_of(output), along.name)),
                     has_others ? "The least over all other axes." : "",
                     [&](double width) { return draw_scatter(chart, width); });
}

/// The other objective of a Pareto front: GPUs if they vary, otherwise memory.
std::optional<std::string> second_objective(const SweepTable& table) {
  for (const char* name : {"gpus", "memory_bytes"}) {
    if (std::find(table.columns.begin(), table.columns.end(), name) == table.columns.end()) continue;
    if (values_of(table, table.index(name)).size() > 1) return name;
  }
  return std::nullopt;
}

std::string case_text(const SweepTable& table, const std::vector<SweepAxis>& axes, const std::vector<Cell>& row) {
  std::vector<std::string> parts;
  for (const SweepAxis& a : axes) parts.push_back(fmt::format("{} {}", a.name, cell_text(row[table.index(a.name)])));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::optional<ReportSection> pareto_section(const SweepTable& table, const std::vector<SweepAxis>& axes,
                                            const std::string& database, const std::string& output) {
  const std::optional<std::string> other = second_objective(table);
  if (!other || output != "makespan_s") return std::nullopt;
  const std::size_t x = table.index(output), y = table.index(*other);
  ScatterChart chart{.x = {}, .y = {}, .x_title = title_of(output), .y_title = title_of(*other)};
  chart.x_tick = tick_of(output);
  chart.y_tick = tick_of(*other);
  std::vector<double> xs, ys;
  for (const std::vector<Cell>& row : table.rows) {
    const auto time = cell_number(row[x]), second = cell_number(row[y]);
    if (!time || !second || *time <= 0 || *second <= 0) continue;
    xs.push_back(*time);
    ys.push_back(*second);
    chart.points.push_back(
        {.x = *time, .y = *second, .style = "other", .radius = 3, .tip = case_text(table, axes, row)});
  }
  if (xs.empty()) return std::nullopt;
  const sweep::ResultTable front = sweep::pareto_front(database, {.objectives = {output, *other}}, {});
  const std::size_t front_x = position_in(front.columns, output), front_y = position_in(front.columns, *other);
  ScatterLine line{.points = {}, .style = "l-forward thick"};
  chart.keys = {{"forward", "Pareto front"}, {"other", "other cases"}};
  std::vector<HtmlColumn> columns;
  for (const std::string& c : front.columns) columns.push_back({title_of(c), c == output || c == *other});
  std::vector<std::vector<std::string>> rows;
  for (const std::vector<Cell>& row : front.rows) {
    line.points.emplace_back(*cell_number(row[front_x]), *cell_number(row[front_y]));
    chart.points.push_back(
        {.x = line.points.back().first, .y = line.points.back().second, .style = "forward", .radius = 4.5});
    std::vector<std::string>& texts = rows.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) texts.push_back(sweep::cell_for_people(row[i], front.columns[i]));
  }
  std::sort(line.points.begin(), line.points.end());
  chart.lines = {std::move(line)};
  const auto spreads = [](const std::vector<double>& v) {
    const auto [least, most] = std::minmax_element(v.begin(), v.end());
    return *most > 8 * *least;
  };
  chart.x = scale_over(xs, spreads(xs));
  chart.y = scale_over(ys, spreads(ys));
  return ReportSection{.title = "Pareto front",
                       .figures = {make_figure("pareto", "Pareto front",
                                               "The cases that no other case beats in both; the table lists them.",
                                               [&](double width) { return draw_scatter(chart, width); })},
                       .html = html_table(columns, rows)};
}

/// What was varied, then what came out, then the rest.
std::vector<std::size_t> columns_by_interest(const SweepTable& table) {
  std::vector<std::size_t> out;
  const auto add = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const std::size_t i = table.index(name);
      const bool is_shown = name != "key" && name != "reason";
      if (is_shown && std::find(out.begin(), out.end(), i) == out.end()) out.push_back(i);
    }
  };
  add(table.names(ColumnRole::Axis));
  add(table.names(ColumnRole::Output));
  add(table.columns);
  return out;
}

ReportSection cases_section(const SweepTable& table) {
  constexpr std::size_t kMost = 400;
  std::vector<HtmlColumn> columns;
  std::vector<std::size_t> at;
  for (const std::size_t i : columns_by_interest(table)) {
    const bool is_text = std::any_of(table.rows.begin(), table.rows.end(),
                                     [&](const auto& r) { return std::holds_alternative<std::string>(r[i]); });
    columns.push_back({title_of(table.columns[i]), !is_text});
    at.push_back(i);
  }
  std::vector<std::vector<std::string>> rows;
  for (std::size_t r = 0; r < std::min(kMost, table.rows.size()); ++r) {
    std::vector<std::string>& texts = rows.emplace_back();
    for (const std::size_t i : at) texts.push_back(sweep::cell_for_people(table.rows[r][i], table.columns[i]));
  }
  ReportSection out{.title = "Cases", .html = html_table(columns, rows)};
  if (table.rows.size() > kMost)
    out.paragraphs.push_back(fmt::format("The first {} of {}; `moeplan query` prints all.", kMost, table.rows.size()));
  std::map<std::string, std::size_t> reasons;
  for (const std::vector<Cell>& row : table.rows) {
    const std::string reason = cell_text(row[table.index("reason")]);
    if (!reason.empty()) ++reasons[reason];
  }
  std::vector<std::string> texts;
  for (const auto& [reason, count] : reasons) texts.push_back(fmt::format("{} x {}", count, reason));
  if (!texts.empty()) out.html += html_details("Why cases have no result", texts);
  return out;
}

}  // namespace

Report sweep_html(const std::string& database) {
  const sweep::SweepHead head = sweep::read_sweep_head(database);
  const SweepTable table = sweep::read_sweep_table(database, head.column_names());
  std::map<std::string, std::size_t> status;
  for (const std::vector<Cell>& row : table.rows) ++status[cell_text(row[table.index("status")])];
  Report out{
      .title = fmt::format("Sweep {}", head.name), .subtitle = "", .tiles = {}, .lead = {}, .sections = {}, .data = {}};
  const std::vector<SweepAxis> axes = varying_axes(table);
  std::vector<std::string> counts;
  for (const SweepAxis& a : axes) counts.push_back(fmt::format("{} values of {}", a.values.size(), a.name));
  out.subtitle = fmt::format("{} cases of kind {}: {}", table.rows.size(), head.kind, fmt::join(counts, ", "));
  for (const auto& [name, count] : status) out.tiles.push_back({fmt::format("{}", count), "cases " + name});
  const std::optional<std::string> output = main_output(table);
  if (output) {
    const std::size_t at = table.index(*output);
    const std::vector<Cell>* best = nullptr;
    for (const std::vector<Cell>& row : table.rows) {
      const auto value = cell_number(row[at]);
      if (value && (!best || *value < *cell_number((*best)[at]))) best = &row;
    }
    if (best) {
      const std::string value = sweep::cell_for_people((*best)[at], *output);
      out.tiles.push_back({value, "least " + title_of(*output)});
      out.lead.push_back(fmt::format("The case with the least {} is {}: {}.", title_of(*output),
                                     case_text(table, axes, *best), value));
    }
    if (auto figure = lines_figure(table, axes, *output)) {
      std::string title = figure->title;
      out.sections.push_back({.title = std::move(title), .figures = {std::move(*figure)}});
    }
    if (auto section = pareto_section(table, axes, database, *output)) out.sections.push_back(std::move(*section));
  }
  if (std::ssize(table.rows) < head.cases)
    out.lead.push_back(
        fmt::format("The sweep is not finished: {} of {} cases are in this file.", table.rows.size(), head.cases));
  out.sections.push_back(cases_section(table));
  return out;
}

}  // namespace moeplan::cli
