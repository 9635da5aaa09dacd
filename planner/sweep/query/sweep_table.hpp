// The rows of a sweep's database, as queries see them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/sweep/expression.hpp"
#include "planner/sweep/sweep_store.hpp"

namespace moeplan::sweep {

/// A column that is computed where a price is given, from gpus, tokens and makespan_s: in the price's currency.
inline constexpr const char* kCostColumn = "cost_per_million_tokens";

/// What a GPU costs an hour: "2.5", or "cluster=dgx_h100:2.5" for the cases with this value of an axis. The first that
/// fits is a case's price.
struct Price {
  std::string column = {};  // "": of all cases
  std::string value = {};
  double per_gpu_hour = 0;
};
/// Raises InputError that names --price.
[[nodiscard]] std::vector<Price> parse_prices(const std::vector<std::string>& texts);

struct TableOptions {
  std::string where = {};  // an expression; "": all rows
  std::vector<Price> prices = {};
};

/// Rows in order of case number.
struct SweepTable {
  std::string path;
  SweepHead head;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;

  [[nodiscard]] std::size_t index(const std::string& column) const;  // it is there
  /// Names of the columns with a role.
  [[nodiscard]] std::vector<std::string> names(ColumnRole role) const;
};

/// The columns that can be asked of a database, without the cost.
[[nodiscard]] SweepHead read_sweep_head(const std::string& path);

/// These columns, each once. Raises InputError: no such column, a price that is needed and missing.
[[nodiscard]] SweepTable read_sweep_table(const std::string& path, const std::vector<std::string>& columns,
                                          const TableOptions& options = {});

/// All columns but the time that a case took, as CSV.
void write_sweep_csv(const std::string& database, const std::string& path);

}  // namespace moeplan::sweep
