#include "planner/reproduction/case_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

namespace moeplan::reproduction {

namespace {

/// The position of a column. Raises InputError with the nearest name if there is none.
std::size_t position(const std::vector<std::string>& columns, const std::string& name, const Location& where) {
  const auto it = std::find(columns.begin(), columns.end(), name);
  if (it == columns.end())
    throw_input_error(where, "", fmt::format("{} is no column{}", in_quotes(name), suggestion(name, columns)));
  return static_cast<std::size_t>(it - columns.begin());
}

double reduced(std::vector<double> values, Aggregate aggregate) {
  const auto n = static_cast<double>(values.size());
  switch (aggregate) {
    case Aggregate::One: return values.front();
    case Aggregate::Min: return *std::min_element(values.begin(), values.end());
    case Aggregate::Max: return *std::max_element(values.begin(), values.end());
    case Aggregate::Sum: return std::accumulate(values.begin(), values.end(), 0.0);
    case Aggregate::Mean:
    case Aggregate::Share: return std::accumulate(values.begin(), values.end(), 0.0) / n;
    case Aggregate::Median: break;
  }
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

Cell aggregate_of(const std::vector<const std::vector<Cell>*>& rows, Aggregate aggregate,
                  const sweep::Expression& expression) {
  if (rows.empty() || (aggregate == Aggregate::One && rows.size() > 1)) return {};
  std::vector<double> values;
  for (const std::vector<Cell>* row : rows) {
    if (aggregate == Aggregate::Share) {
      const auto uses = expression.uses();
      const bool is_missing = std::any_of(
          uses.begin(), uses.end(), [&](std::size_t i) { return std::holds_alternative<std::monostate>((*row)[i]); });
      if (is_missing) return {};
      values.push_back(expression.holds(*row) ? 1 : 0);
      continue;
    }
    const std::optional<double> value = sweep::cell_number(expression.value(*row));
    if (!value) return {};
    values.push_back(*value);
  }
  return reduced(std::move(values), aggregate);
}

/// Rows with equal values in some columns.
struct Group {
  std::vector<Cell> key;
  std::vector<const std::vector<Cell>*> rows;
};

/// The groups in order of first occurrence.
std::vector<Group> groups_of(const CaseTable& table, const std::vector<std::string>& per, const Location& where) {
  std::vector<std::size_t> keys;
  for (const std::string& name : per) keys.push_back(position(table.columns, name, where));
  std::map<std::vector<Cell>, std::size_t> known;
  std::vector<Group> groups;
  for (const std::vector<Cell>& row : table.rows) {
    std::vector<Cell> key;
    for (const std::size_t k : keys) key.push_back(row[k]);
    const auto [it, is_new] = known.try_emplace(key, groups.size());
    if (is_new) groups.push_back({std::move(key), {}});
    groups[it->second].rows.push_back(&row);
  }
  return groups;
}

}  // namespace

CaseTable table_of(const sweep::SweepSpec& sweep, const std::vector<sweep::CaseResult>& results) {
  CaseTable table{.columns = sweep.columns(), .rows = {}};
  table.columns.insert(table.columns.end(), sweep.outputs.begin(), sweep.outputs.end());
  for (const sweep::CaseResult& result : results) {
    std::vector<Cell> row = result.settings;
    row.insert(row.end(), result.outcome.outputs.begin(), result.outcome.outputs.end());
    table.rows.push_back(std::move(row));
    if (table.reason.empty()) table.reason = result.outcome.reason;
  }
  return table;
}

CaseTable pivoted(const sweep::SweepSpec& sweep, const CaseTable& cases, const std::string& axis,
                  const std::string& value, const Location& where) {
  std::vector<std::string> axes;
  for (const sweep::Axis& a : sweep.axes) axes.push_back(a.setting.name);
  const std::size_t by = position(axes, axis, where), shown = position(cases.columns, value, where);
  CaseTable table{.columns = {}, .rows = {}, .reason = cases.reason};
  std::vector<std::size_t> keys;  // columns of cases: the axes come first
  for (const std::vector<std::size_t>& together : sweep.dimensions) {
    if (std::find(together.begin(), together.end(), by) == together.end())
      keys.insert(keys.end(), together.begin(), together.end());
  }
  for (const std::size_t key : keys) table.columns.push_back(cases.columns[key]);
  std::vector<std::string> names;
  for (const std::string& text : sweep.axes[by].values) {
    if (std::find(names.begin(), names.end(), text) == names.end()) names.push_back(text);
  }
  table.columns.insert(table.columns.end(), names.begin(), names.end());
  std::map<std::vector<Cell>, std::size_t> rows;
  for (const std::vector<Cell>& row : cases.rows) {
    std::vector<Cell> key;
    for (const std::size_t k : keys) key.push_back(row[k]);
    const auto [it, is_new] = rows.try_emplace(key, table.rows.size());
    if (is_new) {
      table.rows.push_back(std::move(key));
      table.rows.back().resize(table.columns.size());
    }
    const std::size_t column = keys.size() + position(names, sweep::cell_text(row[by]), where);
    Cell& cell = table.rows[it->second][column];
    if (!std::holds_alternative<std::monostate>(cell))
      throw_input_error(where, "", fmt::format("several cases have {} {}", axis, sweep::cell_text(row[by])));
    cell = row[shown];
  }
  return table;
}

CaseTable selected(CaseTable table, const Formula& condition) {
  const sweep::Expression expression = condition.over(table.columns);
  std::erase_if(table.rows, [&](const std::vector<Cell>& row) { return !expression.holds(row); });
  return table;
}

CaseTable aggregated(const CaseTable& table, const std::vector<std::string>& per,
                     const std::vector<std::pair<std::string, Aggregation>>& columns, const Location& where) {
  CaseTable out{.columns = per, .rows = {}, .reason = table.reason};
  const std::vector<Group> groups = groups_of(table, per, where);
  for (const Group& group : groups) out.rows.push_back(group.key);
  for (const auto& [name, aggregation] : columns) {
    const sweep::Expression expression = aggregation.formula.over(table.columns);
    out.columns.push_back(name);
    for (std::size_t i = 0; i < groups.size(); ++i)
      out.rows[i].push_back(aggregate_of(groups[i].rows, aggregation.aggregate, expression));
  }
  return out;
}

CaseTable nearest_rows(const CaseTable& table, const std::vector<std::string>& per, const Formula& value, double to,
                       const Location& where) {
  CaseTable out{.columns = table.columns, .rows = {}, .reason = table.reason};
  const sweep::Expression expression = value.over(table.columns);
  for (const Group& group : groups_of(table, per, where)) {
    const std::vector<Cell>* nearest = nullptr;
    double least = 0;
    for (const std::vector<Cell>* row : group.rows) {
      const std::optional<double> x = sweep::cell_number(expression.value(*row));
      if (!x || (nearest && std::abs(*x - to) >= least)) continue;
      nearest = row;
      least = std::abs(*x - to);
    }
    if (nearest) out.rows.push_back(*nearest);
  }
  return out;
}

Cell aggregate_of(const CaseTable& table, const Aggregation& aggregation) {
  std::vector<const std::vector<Cell>*> rows;
  for (const std::vector<Cell>& row : table.rows) rows.push_back(&row);
  return aggregate_of(rows, aggregation.aggregate, aggregation.formula.over(table.columns));
}

}  // namespace moeplan::reproduction
