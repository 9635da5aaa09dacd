#include "planner/sweep/query/result_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

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

std::string text_of(const ResultTable& table) {
  const std::size_t n = table.columns.size();
  std::vector<std::vector<std::string>> lines{table.columns};
  std::vector<bool> is_number(n, true);
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<std::string>& line = lines.emplace_back();
    for (std::size_t i = 0; i < n; ++i) {
      line.push_back(cell_for_people(row[i], i < table.units.size() ? table.units[i] : table.columns[i]));
      if (std::holds_alternative<std::string>(row[i])) is_number[i] = false;
    }
  }
  std::vector<std::size_t> widths(n, 0);
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < n; ++i) widths[i] = std::max(widths[i], width(line[i]));
  }
  std::string out;
  for (const auto& line : lines) {
    std::string text;
    for (std::size_t i = 0; i < n; ++i) {
      const std::string blanks(widths[i] - width(line[i]), ' ');
      text += (i > 0 ? "  " : "") + (is_number[i] ? blanks + line[i] : line[i] + blanks);
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
