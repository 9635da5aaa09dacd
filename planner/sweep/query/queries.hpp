// Queries over sweep databases. Each is a function from a database to a table and raises InputError if it cannot be
// answered.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/sweep/query/result_table.hpp"
#include "planner/sweep/query/sweep_table.hpp"

namespace moeplan::sweep {

/// `best`: the cases with the least (or highest) value of a column, over all cases or for each combination of `per`.
struct BestQuery {
  std::string by = "makespan_s";
  bool highest = false;
  std::vector<std::string> per = {};
  std::int64_t top = 1;
  std::vector<std::string> columns = {};  // empty: axes, gpus, `by`, and non-numeric outputs
};
[[nodiscard]] ResultTable best_cases(const std::string& database, const BestQuery& query, const TableOptions& options);

/// How `pivot` combines the cases of a table cell; One requires that there is only one.
enum class Aggregate { One, Min, Max, Mean, Count };
inline constexpr std::array<std::pair<Aggregate, std::string_view>, 5> kAggregateNames{{{Aggregate::One, "one"},
                                                                                        {Aggregate::Min, "min"},
                                                                                        {Aggregate::Max, "max"},
                                                                                        {Aggregate::Mean, "mean"},
                                                                                        {Aggregate::Count, "count"}}};
/// `pivot`: one value over two sets of columns.
struct PivotQuery {
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::string value = "makespan_s";
  Aggregate aggregate = Aggregate::One;
  std::string speedup_over = {};  // "schedule=baseline": show that case's value divided by this case's
};
[[nodiscard]] ResultTable pivot(const std::string& database, const PivotQuery& query, const TableOptions& options);

/// `pareto`: the cases that no other case dominates; of equal ones the first. "max:COLUMN" maximises a column, "COLUMN"
/// minimises it.
struct ParetoQuery {
  /// Empty: makespan_s, gpus, memory_bytes and, if there is a price, the cost.
  std::vector<std::string> objectives = {};
  std::vector<std::string> columns = {};  // additional columns to show; empty: axes
};
[[nodiscard]] ResultTable pareto_front(const std::string& database, const ParetoQuery& query,
                                       const TableOptions& options);

/// `diff`: cases with equal axes in two databases whose status differs, or whose value differs by more than `threshold`
/// (0.01 means 1%).
struct DiffQuery {
  std::string other;
  std::string value = "makespan_s";
  double threshold = 0;
};
[[nodiscard]] ResultTable differences(const std::string& database, const DiffQuery& query, const TableOptions& options);

/// `table`: all rows, with all or some of their columns.
[[nodiscard]] ResultTable whole_table(const std::string& database, const std::vector<std::string>& columns,
                                      const TableOptions& options);

}  // namespace moeplan::sweep
