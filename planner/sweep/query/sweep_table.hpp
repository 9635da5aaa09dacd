// The rows of a sweep's database as queries read them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/sweep/expression.hpp"
#include "planner/sweep/sweep_store.hpp"

namespace moeplan::sweep {

/// A column computed from gpus, tokens and makespan_s if a price is given, in the price's currency.
inline constexpr const char* kCostColumn = "cost_per_million_tokens";

/// The price of a GPU hour: "2.5", or "cluster=dgx_h100:2.5" for the cases with this value of an axis. The first
/// matching price applies to a case.
struct Price {
  std::string column = {};  // "": all cases
  std::string value = {};
  double per_gpu_hour = 0;
};
/// Parses prices. Raises InputError that names --price.
[[nodiscard]] std::vector<Price> parse_prices(const std::vector<std::string>& texts);

/// Options of all queries.
struct TableOptions {
  std::string where = {};  // an expression; "": all rows
  std::vector<Price> prices = {};
};

/// Selected rows and columns, in order of case number.
struct SweepTable {
  std::string path;
  SweepHead head;
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;

  [[nodiscard]] std::size_t index(const std::string& column) const;  // the column must exist
  /// Names of the columns with a given role.
  [[nodiscard]] std::vector<std::string> names(ColumnRole role) const;
};

/// The columns that a database offers, without the cost column.
[[nodiscard]] SweepHead read_sweep_head(const std::string& path);

/// Reads these columns, each once. Raises InputError if a column does not exist or a required price is missing.
[[nodiscard]] SweepTable read_sweep_table(const std::string& path, const std::vector<std::string>& columns,
                                          const TableOptions& options = {});

}  // namespace moeplan::sweep
