// The operations of a rank as a table, and as JSON.
#pragma once

#include <span>
#include <string>

#include "model/analysis/operation_list.hpp"
#include "planner/report/json_parts.hpp"

namespace moeplan::cli {

/// One line an operation, by block: how often it runs, its time each and together, and its rate.
[[nodiscard]] std::string operation_table(const Program& program, std::span<const OperationRow> rows, RankId rank);

[[nodiscard]] planner::Json operation_rows(const Program& program, std::span<const OperationRow> rows);

}  // namespace moeplan::cli
