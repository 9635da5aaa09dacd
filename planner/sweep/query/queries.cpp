#include "planner/sweep/query/queries.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

namespace moeplan::sweep {

namespace {

using Row = std::vector<Cell>;
using ColumnNames = std::vector<std::string>;

ColumnNames of_role(const SweepHead& head, ColumnRole role) {
  ColumnNames out;
  for (const Column& c : head.columns) {
    if (c.role == role) out.push_back(c.name);
  }
  return out;
}

bool contains(const ColumnNames& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void append(ColumnNames& to, const ColumnNames& more) {
  for (const std::string& name : more) {
    if (!contains(to, name)) to.push_back(name);
  }
}

std::vector<std::size_t> places(const SweepTable& table, const ColumnNames& names) {
  std::vector<std::size_t> out;
  for (const std::string& name : names) out.push_back(table.index(name));
  return out;
}

Row cells(const Row& row, const std::vector<std::size_t>& at) {
  Row out;
  for (const std::size_t i : at) out.push_back(row[i]);
  return out;
}

/// Rows grouped by equal keys, in order of first appearance.
class Groups {
 public:
  std::size_t of(const Row& key) {
    const auto [found, is_new] = index_.try_emplace(key, keys_.size());
    if (is_new) keys_.push_back(key);
    return found->second;
  }
  [[nodiscard]] const std::vector<Row>& keys() const { return keys_; }

 private:
  std::map<Row, std::size_t> index_;
  std::vector<Row> keys_;
};

std::string label(const Row& key) {
  std::string text;
  for (const Cell& cell : key) text += (text.empty() ? "" : " ") + cell_text(cell);
  return text;
}

/// The reference of a speed-up: the same case with another value of one axis.
class Baseline {
 public:
  Baseline(const std::string& text, const SweepHead& head) {
    const std::size_t equals = text.find('=');
    const ColumnNames axes = of_role(head, ColumnRole::Axis);
    axis_ = text.substr(0, equals);
    if (equals == std::string::npos || !contains(axes, axis_)) {
      throw InputError({{"--speedup-over"},
                        "",
                        fmt::format("{} is not AXIS=VALUE; axes are {}", in_quotes(text), fmt::join(axes, ", "))});
    }
    value_ = text.substr(equals + 1);
    for (const std::string& name : axes) {
      if (name != axis_) others_.push_back(name);
    }
  }

  [[nodiscard]] ColumnNames columns() const {
    ColumnNames out = others_;
    out.push_back(axis_);
    return out;
  }

  /// Replaces values by speed-ups; missing if there is no such case.
  void replace(SweepTable& table, std::size_t value) const {
    const std::vector<std::size_t> others = places(table, others_);
    const std::size_t axis = table.index(axis_);
    std::map<Row, double> base;
    for (const Row& row : table.rows) {
      const auto number = cell_number(row[value]);
      if (number && cell_text(row[axis]) == value_) base[cells(row, others)] = *number;
    }
    if (base.empty()) {
      throw InputError({{"--speedup-over"}, "", fmt::format("no finished case has {} {}", axis_, in_quotes(value_))});
    }
    for (Row& row : table.rows) {
      const auto number = cell_number(row[value]);
      const auto found = base.find(cells(row, others));
      row[value] = number && found != base.end() && *number > 0 ? Cell(found->second / *number) : Cell();
    }
  }

 private:
  std::string axis_;
  std::string value_;
  ColumnNames others_;
};

Cell aggregated(Aggregate aggregate, const std::vector<Cell>& values, const std::string& place) {
  if (aggregate == Aggregate::Count) return std::int64_t{std::ssize(values)};
  if (values.empty()) return {};
  if (aggregate == Aggregate::One) {
    if (values.size() == 1) return values.front();
    throw InputError(
        {{"pivot"},
         "",
         fmt::format("{} cases fall on {}; choose --aggregate min, max, mean or count, or further --rows and --columns",
                     values.size(), place)});
  }
  std::vector<double> numbers;
  for (const Cell& cell : values) {
    const auto number = cell_number(cell);
    if (!number)
      throw InputError(
          {{"pivot"}, "", fmt::format("{} is a text; it can be counted only", in_quotes(cell_text(cell)))});
    numbers.push_back(*number);
  }
  switch (aggregate) {
    case Aggregate::Min: return *std::min_element(numbers.begin(), numbers.end());
    case Aggregate::Max: return *std::max_element(numbers.begin(), numbers.end());
    default: return std::accumulate(numbers.begin(), numbers.end(), 0.0) / static_cast<double>(numbers.size());
  }
}

/// A note on how many of a sweep's cases are present, unless all are.
std::vector<std::string> completeness(const std::string& path, const SweepHead& head) {
  Database database(path, Database::Access::Read);
  const Cell there = database.first("SELECT count(*) FROM cases");
  if (cell_number(there) == static_cast<double>(head.cases)) return {};
  return {fmt::format("{} has {} of the {} cases of {}", path, cell_text(there), head.cases, head.name)};
}

}  // namespace

ResultTable best_cases(const std::string& database, const BestQuery& query, const TableOptions& options) {
  const SweepHead head = read_sweep_head(database);
  ColumnNames shown = query.columns;
  if (shown.empty()) {
    append(shown, of_role(head, ColumnRole::Axis));
    append(shown, {"gpus", query.by});
  }
  ColumnNames needed = shown;
  append(needed, query.per);
  append(needed, {query.by});
  const SweepTable table = read_sweep_table(database, needed, options);
  const std::size_t by = table.index(query.by);
  const std::vector<std::size_t> per = places(table, query.per), out = places(table, shown);
  Groups groups;
  std::vector<std::vector<std::pair<double, const Row*>>> ranked;
  for (const Row& row : table.rows) {
    const auto number = cell_number(row[by]);
    if (!number) continue;
    const std::size_t group = groups.of(cells(row, per));
    if (group == ranked.size()) ranked.emplace_back();
    ranked[group].emplace_back(query.highest ? -*number : *number, &row);
  }
  ResultTable result{.columns = shown, .rows = {}, .notes = completeness(database, head), .essential = query.per};
  append(result.essential, {query.by});
  for (auto& group : ranked) {
    std::stable_sort(group.begin(), group.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < std::min(group.size(), static_cast<std::size_t>(query.top)); ++i) {
      result.rows.push_back(cells(*group[i].second, out));
    }
  }
  return result;
}

ResultTable pivot(const std::string& database, const PivotQuery& query, const TableOptions& options) {
  const SweepHead head = read_sweep_head(database);
  ColumnNames needed = query.rows;
  append(needed, query.columns);
  append(needed, {query.value});
  std::optional<Baseline> baseline;
  if (!query.speedup_over.empty()) {
    baseline.emplace(query.speedup_over, head);
    append(needed, baseline->columns());
  }
  SweepTable table = read_sweep_table(database, needed, options);
  const std::size_t value = table.index(query.value);
  if (baseline) baseline->replace(table, value);
  const std::vector<std::size_t> row_places = places(table, query.rows), column_places = places(table, query.columns);
  Groups rows, columns;
  std::map<std::pair<std::size_t, std::size_t>, std::vector<Cell>> values;
  for (const Row& row : table.rows) {
    const std::size_t r = rows.of(cells(row, row_places)), c = columns.of(cells(row, column_places));
    if (!std::holds_alternative<std::monostate>(row[value])) values[{r, c}].push_back(row[value]);
  }
  ResultTable result{query.rows, {}, completeness(database, head), query.rows, query.rows};
  const std::string unit = baseline || query.aggregate == Aggregate::Count ? "" : query.value;
  for (const Row& key : columns.keys()) {
    result.columns.push_back(query.columns.empty() ? query.value : label(key));
    result.units.push_back(unit);
  }
  for (std::size_t r = 0; r < rows.keys().size(); ++r) {
    Row line = rows.keys()[r];
    for (std::size_t c = 0; c < columns.keys().size(); ++c) {
      line.push_back(aggregated(query.aggregate, values[{r, c}],
                                fmt::format("{} / {}", label(rows.keys()[r]), label(columns.keys()[c]))));
    }
    result.rows.push_back(std::move(line));
  }
  result.notes.insert(
      result.notes.begin(),
      fmt::format("{}{}{} by {}{}", baseline ? "speed-up over " + query.speedup_over + " in " : "", query.value,
                  query.aggregate == Aggregate::One
                      ? ""
                      : fmt::format(" ({})", name_of<Aggregate>(kAggregateNames, query.aggregate)),
                  fmt::join(query.rows, ", "),
                  query.columns.empty() ? "" : fmt::format(" and {}", fmt::join(query.columns, ", "))));
  return result;
}

ResultTable pareto_front(const std::string& database, const ParetoQuery& query, const TableOptions& options) {
  const SweepHead head = read_sweep_head(database);
  ColumnNames objectives = query.objectives;
  if (objectives.empty()) {
    const ColumnNames outputs = of_role(head, ColumnRole::Output);
    objectives = {"makespan_s", "gpus"};
    if (contains(outputs, "memory_bytes")) objectives.emplace_back("memory_bytes");
    if (!options.prices.empty()) objectives.emplace_back(kCostColumn);
  }
  std::vector<double> signs;
  for (std::string& name : objectives) {
    const bool wants_much = name.starts_with("max:");
    if (wants_much) name.erase(0, 4);
    signs.push_back(wants_much ? -1 : 1);
  }
  ColumnNames shown = query.columns.empty() ? of_role(head, ColumnRole::Axis) : query.columns;
  append(shown, objectives);
  const SweepTable table = read_sweep_table(database, shown, options);
  const std::vector<std::size_t> at = places(table, objectives);

  struct Point {
    std::vector<double> values;
    std::size_t row;
  };
  std::vector<Point> points;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    Point p{{}, r};
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (const auto number = cell_number(table.rows[r][at[i]])) p.values.push_back(signs[i] * *number);
    }
    if (p.values.size() == at.size()) points.push_back(std::move(p));
  }
  // In lexicographic order no point is dominated by a later one.
  std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) { return a.values < b.values; });
  std::vector<const Point*> front;
  for (const Point& p : points) {
    const bool beaten = std::any_of(front.begin(), front.end(), [&](const Point* q) {
      return std::equal(q->values.begin(), q->values.end(), p.values.begin(), std::less_equal<>());
    });
    if (!beaten) front.push_back(&p);
  }
  ResultTable result{
      .columns = table.columns, .rows = {}, .notes = completeness(database, head), .essential = objectives};
  for (const Point* p : front) result.rows.push_back(table.rows[p->row]);
  result.notes.insert(
      result.notes.begin(),
      fmt::format("{} of {} cases: none of the others is better in one of {} without being worse in another",
                  front.size(), points.size(), fmt::join(objectives, ", ")));
  return result;
}

ResultTable differences(const std::string& database, const DiffQuery& query, const TableOptions& options) {
  const SweepHead head = read_sweep_head(database), other = read_sweep_head(query.other);
  const ColumnNames axes = of_role(head, ColumnRole::Axis);
  if (axes != of_role(other, ColumnRole::Axis)) {
    throw InputError({{query.other}, "", fmt::format("has other axes than {}", database)});
  }
  ColumnNames needed = axes;
  append(needed, {"status", query.value});
  const SweepTable a = read_sweep_table(database, needed, options), b = read_sweep_table(query.other, needed, options);
  const std::vector<std::size_t> keys = places(a, axes);
  const std::size_t status = a.index("status"), value = a.index(query.value);
  std::map<Row, const Row*> in_b;
  for (const Row& row : b.rows) in_b.emplace(cells(row, keys), &row);
  ResultTable result{axes, {}, {}};
  append(result.columns, {"status", "other_status"});
  result.columns.insert(result.columns.end(), {query.value, "other_" + query.value, "ratio"});
  result.essential = {query.value, "other_" + query.value, "ratio"};
  std::int64_t same = 0, only_a = 0;
  for (const Row& row : a.rows) {
    const auto found = in_b.find(cells(row, keys));
    if (found == in_b.end()) {
      ++only_a;
      continue;
    }
    const Row& there = *found->second;
    in_b.erase(found);
    const auto x = cell_number(row[value]), y = cell_number(there[value]);
    const bool differs = row[status] != there[status] ||
                         (x && y ? std::abs(*y - *x) > query.threshold * std::abs(*x) : row[value] != there[value]);
    if (!differs) {
      ++same;
      continue;
    }
    Row line = cells(row, keys);
    line.insert(line.end(),
                {row[status], there[status], row[value], there[value], x && y && *x != 0 ? Cell(*y / *x) : Cell()});
    result.rows.push_back(std::move(line));
  }
  result.notes.push_back(fmt::format("{} cases differ, {} do not; {} are in {} only, {} in {} only", result.rows.size(),
                                     same, only_a, database, in_b.size(), query.other));
  return result;
}

ResultTable whole_table(const std::string& database, const std::vector<std::string>& columns,
                        const TableOptions& options) {
  const SweepHead head = read_sweep_head(database);
  ColumnNames all = columns;
  if (all.empty()) {
    for (const Column& c : head.columns) all.push_back(c.name);
    if (!options.prices.empty()) all.emplace_back(kCostColumn);
  }
  SweepTable table = read_sweep_table(database, all, options);
  return {std::move(table.columns), std::move(table.rows), completeness(database, head)};
}

}  // namespace moeplan::sweep
