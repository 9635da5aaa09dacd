#include "planner/sweep/query/result_table.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "model/text/unit_text.hpp"
#include "planner/report/json_parts.hpp"

namespace moeplan::sweep {

namespace {

std::string number_text(double value, const std::string& column) {
  if (column.ends_with("_s")) return human(Seconds(value));
  if (column.ends_with("_bytes")) return human(Bytes(value));
  if (value == std::floor(value) && std::abs(value) < 1e15) return fmt::format("{:.0f}", value);
  return fmt::format("{:.4g}", value);
}

/// The number of terminal columns of a text, counted in code points.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

constexpr std::string_view kGap = "  ";

/// Cuts a text to 32 characters.
void shorten(std::string& text) {
  constexpr std::size_t kMost = 32;
  if (width(text) <= kMost) return;
  std::size_t length = 0;
  for (std::size_t characters = 0; length < text.size(); ++length) {
    if ((text[length] & 0xc0) != 0x80 && ++characters > kMost - 3) break;
  }
  text = text.substr(0, length) + "...";
}

const std::string& unit_column(const ResultTable& table, std::size_t column) {
  return column < table.units.size() ? table.units[column] : table.columns[column];
}

/// The texts of the head and of every row.
std::vector<std::vector<std::string>> lines_of(const ResultTable& table) {
  std::vector<std::vector<std::string>> lines{table.columns};
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (std::size_t i = 0; i < row.size(); ++i) line.push_back(cell_for_people(row[i], unit_column(table, i)));
  }
  return lines;
}

std::vector<std::size_t> widths_of(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths(lines.front().size(), 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  }
  return widths;
}

/// The columns: essential ones, those whose values differ, the others; each from the left.
std::vector<std::size_t> by_importance(const ResultTable& table) {
  const auto rank = [&](std::size_t column) {
    const auto& names = table.essential;
    if (std::find(names.begin(), names.end(), table.columns[column]) != names.end()) return 0;
    const bool differs = std::any_of(table.rows.begin(), table.rows.end(),
                                     [&](const auto& row) { return row[column] != table.rows.front()[column]; });
    return differs ? 1 : 2;
  };
  std::vector<std::size_t> order(table.columns.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
  return order;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

planner::Json json_cell(const Cell& cell) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) return *whole;
  if (const auto* number = std::get_if<double>(&cell)) return *number;
  return nullptr;
}

}  // namespace

std::string cell_for_people(const Cell& cell, const std::string& column) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  if (const auto* whole = std::get_if<std::int64_t>(&cell)) {
    return column.ends_with("_bytes") ? human(Bytes(static_cast<double>(*whole))) : fmt::format("{}", *whole);
  }
  if (const auto* number = std::get_if<double>(&cell)) return number_text(*number, column);
  return "-";
}

ResultTable fitted(const ResultTable& table, std::size_t width) {
  const auto needed = [](const std::vector<std::size_t>& widths) {
    return std::accumulate(widths.begin(), widths.end(), kGap.size() * widths.size()) - kGap.size();
  };
  if (table.columns.empty() || needed(widths_of(lines_of(table))) <= width) return table;
  ResultTable shortened = table;
  for (std::vector<Cell>& row : shortened.rows) {
    for (Cell& cell : row) {
      if (auto* text = std::get_if<std::string>(&cell)) shorten(*text);
    }
  }
  const std::vector<std::size_t> widths = widths_of(lines_of(shortened)), order = by_importance(table);
  std::vector<bool> shown(order.size(), false);
  std::size_t used = 0;
  for (const std::size_t i : order) {
    const std::size_t with_it = used + (used > 0 ? kGap.size() : 0) + widths[i];
    if (with_it > width && used > 0) continue;
    shown[i] = true;
    used = with_it;
  }
  ResultTable out{.columns = {}, .rows = std::vector<std::vector<Cell>>(table.rows.size()), .notes = table.notes};
  std::vector<std::string> left_out;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (!shown[i]) {
      left_out.push_back(table.columns[i]);
      continue;
    }
    out.columns.push_back(table.columns[i]);
    out.units.push_back(unit_column(table, i));
    for (std::size_t r = 0; r < table.rows.size(); ++r) out.rows[r].push_back(shortened.rows[r][i]);
  }
  if (!left_out.empty())
    out.notes.push_back(fmt::format("{} of {} columns do not fit and are left out: {}; --csv and --json have all",
                                    left_out.size(), shown.size(), fmt::join(left_out, ", ")));
  return out;
}

std::string text_of(const ResultTable& table) {
  const std::size_t n = table.columns.size();
  std::vector<bool> is_number(n, true);
  for (const std::vector<Cell>& row : table.rows) {
    for (std::size_t i = 0; i < n; ++i)
      if (std::holds_alternative<std::string>(row[i])) is_number[i] = false;
  }
  const std::vector<std::vector<std::string>> lines = lines_of(table);
  const std::vector<std::size_t> widths = widths_of(lines);
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < n; ++i) {
      const std::string blanks(widths[i] - width(line[i]), ' ');
      text += std::string(i > 0 ? kGap : "") + (is_number[i] ? blanks + line[i] : line[i] + blanks);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  }
  return out;
}

std::string csv_of(const ResultTable& table) {
  std::string out;
  const auto add_line = [&](const auto& cells, auto text) {
    for (std::size_t i = 0; i < cells.size(); ++i) out += (i > 0 ? "," : "") + csv_cell(text(cells[i]));
    out += '\n';
  };
  add_line(table.columns, [](const std::string& name) { return name; });
  for (const std::vector<Cell>& row : table.rows) add_line(row, cell_text);
  return out;
}

void write_sweep_csv(const std::string& database, const std::string& path) {
  const SweepTable table = read_sweep_table(database, read_sweep_head(database).column_names());
  write_file_atomically(path, csv_of({table.columns, table.rows, {}}));
}

std::string json_of(const ResultTable& table, const std::string& query, const std::vector<SweepHead>& sweeps) {
  planner::Json j{
      {"schema_version", planner::kJsonSchemaVersion}, {"query", query}, {"sweeps", planner::Json::array()}};
  for (const SweepHead& head : sweeps) {
    j["sweeps"].push_back(
        {{"name", head.name}, {"kind", head.kind}, {"cases", head.cases}, {"shard", shard_text(head.shard)}});
  }
  j["columns"] = table.columns;
  j["rows"] = planner::Json::array();
  for (const std::vector<Cell>& row : table.rows) {
    planner::Json cells = planner::Json::array();
    for (const Cell& cell : row) cells.push_back(json_cell(cell));
    j["rows"].push_back(std::move(cells));
  }
  j["notes"] = table.notes;
  return planner::json_text(j);
}

}  // namespace moeplan::sweep
