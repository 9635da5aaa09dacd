// Tables between the cases of a sweep and a single number: their operations are selection, pivoting and aggregation.
//
//   sweep           schedule  tp  makespan_s      pivot "schedule"   tp  baseline  parm_s1     aggregate   tp  mean
//                   baseline   2         3.0      ->                  2       3.0      1.0     ->           2   3.0
//                   parm_s1    2         1.0
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/sweep/case_runner.hpp"
#include "planner/sweep/expression.hpp"
#include "planner/sweep/sweep_spec.hpp"

namespace moeplan::reproduction {

using sweep::Cell;

/// An expression over the columns of a table, as written in a file.
struct Formula {
  std::string text;
  Location where;
  std::string key_path;

  [[nodiscard]] sweep::Expression over(const std::vector<std::string>& columns) const {
    return {text, columns, where, key_path};
  }
};

/// How the values of several rows become one. One: there is only one row. Share: the fraction of the rows for which a
/// condition holds.
enum class Aggregate { One, Min, Max, Mean, Median, Sum, Share };
inline constexpr std::array<std::pair<Aggregate, std::string_view>, 7> kAggregateNames{{{Aggregate::One, "one"},
                                                                                        {Aggregate::Min, "min"},
                                                                                        {Aggregate::Max, "max"},
                                                                                        {Aggregate::Mean, "mean"},
                                                                                        {Aggregate::Median, "median"},
                                                                                        {Aggregate::Sum, "sum"},
                                                                                        {Aggregate::Share, "share"}}};
struct Aggregation {
  Aggregate aggregate = Aggregate::One;
  Formula formula;
};

struct CaseTable {
  std::vector<std::string> columns;
  std::vector<std::vector<Cell>> rows;
  std::string reason = {};  // why the first of the missing values is missing
};

/// The cases of a sweep: its settings, then its outputs. `results` by number; they may be empty, for the columns alone.
[[nodiscard]] CaseTable table_of(const sweep::SweepSpec& sweep, const std::vector<sweep::CaseResult>& results);

/// A column of `value` for each value of `axis`, and a row for each combination of the axes that do not vary together
/// with it. Raises InputError, located at `where`, if there is no such axis or output.
[[nodiscard]] CaseTable pivoted(const sweep::SweepSpec& sweep, const CaseTable& cases, const std::string& axis,
                                const std::string& value, const Location& where);

/// The rows for which the condition holds.
[[nodiscard]] CaseTable selected(CaseTable table, const Formula& condition);

/// A row for each combination of the columns `per`, in order of first occurrence, with these columns and a column for
/// each aggregation. Raises InputError if a column does not exist.
[[nodiscard]] CaseTable aggregated(const CaseTable& table, const std::vector<std::string>& per,
                                   const std::vector<std::pair<std::string, Aggregation>>& columns,
                                   const Location& where);

/// Of the rows with equal values in the columns `per`, the one whose value is nearest to a number (ties: the first):
/// the calibration of an input with a published number. Rows without a value are left out.
[[nodiscard]] CaseTable nearest_rows(const CaseTable& table, const std::vector<std::string>& per, const Formula& value,
                                     double to, const Location& where);

/// The aggregate over all rows: missing if there are no rows, if a value is missing, or if One of several is asked for.
[[nodiscard]] Cell aggregate_of(const CaseTable& table, const Aggregation& aggregation);

}  // namespace moeplan::reproduction
