#include "planner/sweep/query/sweep_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/text/document.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan::sweep {

namespace {

std::size_t place_of(const std::vector<std::string>& names, const std::string& name, const std::string& path) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    throw InputError({{path}, "", fmt::format("has no column {}{}", in_quotes(name), suggestion(name, names))});
  }
  return static_cast<std::size_t>(found - names.begin());
}

/// The cost column: price per hour * GPUs * hours / tokens.
class Costs {
 public:
  Costs(const std::vector<Price>& prices, const std::vector<std::string>& names, const std::string& path)
      : gpus_(place_of(names, "gpus", path)),
        tokens_(place_of(names, "tokens", path)),
        makespan_(place_of(names, "makespan_s", path)) {
    if (prices.empty()) {
      throw InputError({{"--price"}, "", fmt::format("is needed for {}: per GPU-hour", kCostColumn)});
    }
    for (const Price& p : prices) {
      prices_.emplace_back(p, p.column.empty() ? 0 : place_of(names, p.column, path));
    }
  }

  Cell of(const std::vector<Cell>& row) const {
    const auto gpus = cell_number(row[gpus_]), tokens = cell_number(row[tokens_]), time = cell_number(row[makespan_]);
    if (!gpus || !tokens || !time) return {};
    for (const auto& [price, column] : prices_) {
      if (!price.column.empty() && cell_text(row[column]) != price.value) continue;
      return price.per_gpu_hour * *gpus * *time / 3600 / *tokens * 1e6;
    }
    return {};
  }

 private:
  std::size_t gpus_, tokens_, makespan_;
  std::vector<std::pair<Price, std::size_t>> prices_;
};

}  // namespace

std::vector<Price> parse_prices(const std::vector<std::string>& texts) {
  std::vector<Price> prices;
  Diagnostics wrong;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('='), colon = text.rfind(':');
    Price price;
    std::string amount = text;
    if (equals != std::string::npos && colon != std::string::npos && equals < colon) {
      price.column = text.substr(0, equals);
      price.value = text.substr(equals + 1, colon - equals - 1);
      amount = text.substr(colon + 1);
    }
    const Parsed<double> parsed = parse_number(amount);
    if (!std::holds_alternative<double>(parsed) || std::get<double>(parsed) < 0) {
      wrong.add({"--price"}, "",
                fmt::format("{} is no price; write 2.5, or COLUMN=VALUE:2.5 for some of the cases", in_quotes(text)));
      continue;
    }
    price.per_gpu_hour = std::get<double>(parsed);
    prices.push_back(std::move(price));
  }
  wrong.throw_if_any();
  return prices;
}

std::size_t SweepTable::index(const std::string& column) const { return place_of(columns, column, path); }

std::vector<std::string> SweepTable::names(ColumnRole role) const {
  std::vector<std::string> out;
  for (const Column& c : head.columns) {
    if (c.role == role) out.push_back(c.name);
  }
  return out;
}

SweepHead read_sweep_head(const std::string& path) {
  Database database(path, Database::Access::Read);
  return read_head(database);
}

SweepTable read_sweep_table(const std::string& path, const std::vector<std::string>& columns,
                            const TableOptions& options) {
  Database database(path, Database::Access::Read);
  SweepTable table{.path = path, .head = read_head(database), .columns = {}, .rows = {}};
  std::vector<std::string> names = table.head.column_names();
  const bool has_cost =
      !options.prices.empty() || std::find(columns.begin(), columns.end(), kCostColumn) != columns.end();
  std::optional<Costs> costs;
  if (has_cost) {
    costs.emplace(options.prices, names, path);
    names.emplace_back(kCostColumn);
  }
  std::vector<std::size_t> kept;
  for (const std::string& column : columns) {
    const std::size_t place = place_of(names, column, path);
    if (std::find(kept.begin(), kept.end(), place) != kept.end()) continue;
    kept.push_back(place);
    table.columns.push_back(column);
  }
  std::optional<Expression> where;
  if (!options.where.empty()) where.emplace(options.where, names, Location{"--where"}, "");
  for_each_case(database, table.head, [&](std::vector<Cell> row) {
    row.pop_back();  // the time that the case took
    if (costs) row.push_back(costs->of(row));
    if (where && !where->holds(row)) return;
    std::vector<Cell>& out = table.rows.emplace_back();
    for (const std::size_t place : kept) out.push_back(row[place]);
  });
  return table;
}

}  // namespace moeplan::sweep
