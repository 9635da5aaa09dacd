// What a query answers: a table, as text for people, as CSV and as JSON for programs.
#pragma once

#include <string>
#include <vector>

#include "planner/sweep/query/sweep_table.hpp"

namespace moeplan::sweep {

struct ResultTable {
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
  std::vector<std::string> notes;    // sentences below the text
  std::vector<std::string> units{};  // by column, the name of the column whose unit it has; absent: its own
};

/// Times, sizes and rates in units that suit, other numbers to four digits; what is missing is "-".
[[nodiscard]] std::string text_of(const ResultTable& table);
/// RFC 4180, every number with all its digits.
[[nodiscard]] std::string csv_of(const ResultTable& table);
/// docs/schema/query.json.
[[nodiscard]] std::string json_of(const ResultTable& table, const std::string& query,
                                  const std::vector<SweepHead>& sweeps);

}  // namespace moeplan::sweep
