// The table that a query returns, and its text, CSV and JSON formats.
#pragma once

#include <string>
#include <vector>

#include "planner/sweep/query/sweep_table.hpp"

namespace moeplan::sweep {

/// Columns and rows of a result.
struct ResultTable {
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
  std::vector<std::string> notes;        // sentences to print below the table
  std::vector<std::string> units{};      // by column, the name of the column whose unit applies; absent: its own
  std::vector<std::string> essential{};  // columns that are shown before others where there is no room for all
};

/// A cell of this column for people: times and sizes in suitable units, other numbers with four digits, "-" if missing.
[[nodiscard]] std::string cell_for_people(const Cell& cell, const std::string& column);
/// The table with the columns whose text fits in `width` columns of a terminal, and a note that names the others.
/// Essential columns come first, then those whose values differ, then the others, each from the left; texts are cut to
/// 32 characters. A table that fits stays as it is, and at least one column stays.
[[nodiscard]] ResultTable fitted(const ResultTable& table, std::size_t width);
/// A table for people: times, sizes and bandwidths in suitable units, other numbers with four digits, missing values as
/// "-"; without its notes.
[[nodiscard]] std::string text_of(const ResultTable& table);
/// CSV according to RFC 4180, every number with all its digits.
[[nodiscard]] std::string csv_of(const ResultTable& table);
/// Writes all columns of a database except the timing column as a CSV file.
void write_sweep_csv(const std::string& database, const std::string& path);
/// JSON according to docs/schema/query.json.
[[nodiscard]] std::string json_of(const ResultTable& table, const std::string& query,
                                  const std::vector<SweepHead>& sweeps);

}  // namespace moeplan::sweep
