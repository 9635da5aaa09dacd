// The questions that are asked of a sweep. Each is a function of a database to a table; what cannot be answered raises
// InputError.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/sweep/query/result_table.hpp"
#include "planner/sweep/query/sweep_table.hpp"

namespace moeplan::sweep {

/// `best`: the cases with the least (or highest) value of a column, of all or of each combination of `per`.
struct BestQuery {
  std::string by = "makespan_s";
  bool highest = false;
  std::vector<std::string> per = {};
  std::int64_t top = 1;
  std::vector<std::string> columns = {};  // none: axes, gpus, `by`, and outputs that are no numbers
};
[[nodiscard]] ResultTable best_cases(const std::string& database, const BestQuery& query, const TableOptions& options);

/// `pivot`: a value over two sets of columns. What `One` says stands alone: the one case in its place.
enum class Aggregate { One, Min, Max, Mean, Count };
inline constexpr std::array<std::pair<Aggregate, std::string_view>, 5> kAggregateNames{{{Aggregate::One, "one"},
                                                                                        {Aggregate::Min, "min"},
                                                                                        {Aggregate::Max, "max"},
                                                                                        {Aggregate::Mean, "mean"},
                                                                                        {Aggregate::Count, "count"}}};
struct PivotQuery {
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::string value = "makespan_s";
  Aggregate aggregate = Aggregate::One;
  std::string speedup_over = {};  // "schedule=baseline": how many times the value of that case the value here goes into
};
[[nodiscard]] ResultTable pivot(const std::string& database, const PivotQuery& query, const TableOptions& options);

/// `pareto`: the cases that no other one beats in all objectives; of equal ones the first. "max:COLUMN" wants much,
/// "COLUMN" little.
struct ParetoQuery {
  std::vector<std::string> objectives =
      {};                                 // none: makespan_s, gpus, memory_bytes, and the cost where there is a price
  std::vector<std::string> columns = {};  // further ones to show; none: axes
};
[[nodiscard]] ResultTable pareto_front(const std::string& database, const ParetoQuery& query,
                                       const TableOptions& options);

/// `diff`: cases with equal axes in two databases whose status or value differs, by more than `threshold` (0.01: 1%).
struct DiffQuery {
  std::string other;
  std::string value = "makespan_s";
  double threshold = 0;
};
[[nodiscard]] ResultTable differences(const std::string& database, const DiffQuery& query, const TableOptions& options);

/// `table`: all rows, or some columns of them.
[[nodiscard]] ResultTable whole_table(const std::string& database, const std::vector<std::string>& columns,
                                      const TableOptions& options);

}  // namespace moeplan::sweep
