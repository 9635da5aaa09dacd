// moeplan query out.sqlite best|pivot|pareto|diff|table ...
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/pages/text/wrapping.hpp"
#include "planner/sweep/query/queries.hpp"

namespace moeplan::cli {

namespace {

/// Options common to all queries, and the output of their results.
struct Common {
  std::string database, where;
  std::vector<std::string> prices;
  bool json = false, csv = false;

  [[nodiscard]] sweep::TableOptions table_options() const {
    return {.where = where, .prices = sweep::parse_prices(prices)};
  }
};

using Answer = std::function<sweep::ResultTable(const Common&, const sweep::TableOptions&)>;

void print(const Common& common, const std::string& query, const sweep::ResultTable& table,
           const std::string& other = "") {
  if (common.json) {
    std::vector<sweep::SweepHead> sweeps{sweep::read_sweep_head(common.database)};
    if (!other.empty()) sweeps.push_back(sweep::read_sweep_head(other));
    fmt::print("{}", sweep::json_of(table, query, sweeps));
  } else if (common.csv) {
    fmt::print("{}", sweep::csv_of(table));
  } else {
    const sweep::ResultTable shown = sweep::fitted(table, kPageColumns);
    fmt::print("{}{}", sweep::text_of(shown), shown.notes.empty() ? "" : "\n");
    for (const std::string& note : shown.notes) fmt::print("{}", labelled("", note, 0));
  }
}

CLI::App* add_question(CLI::App& query, const std::shared_ptr<Common>& common, const char* name, const char* help) {
  CLI::App* c = query.add_subcommand(name, help);
  c->add_option("--where", common->where, "Only rows for which this holds: \"tp <= 4 and cluster == 'dgx_h100'\"");
  c->add_option("--price", common->prices,
                "Price per GPU-hour, for cost_per_million_tokens: 2.5, or COLUMN=VALUE:2.5 for some of the cases")
      ->take_all();
  auto* json = c->add_flag("--json", common->json, "Print JSON");
  c->add_flag("--csv", common->csv, "Print CSV, with all digits")->excludes(json);
  return c;
}

void add_list(CLI::App* c, const char* name, std::vector<std::string>& list, const char* help) {
  c->add_option(name, list, help)->delimiter(',');
}

void add_best(CLI::App& query, const std::shared_ptr<Common>& common) {
  auto q = std::make_shared<sweep::BestQuery>();
  CLI::App* c = add_question(query, common, "best", "The cases with the lowest value of a column");
  c->add_option("--by", q->by, "The column")->capture_default_str();
  c->add_flag("--highest", q->highest, "The highest value instead");
  add_list(c, "--per", q->per, "One answer for each combination of these columns");
  c->add_option("--top", q->top, "How many")->check(CLI::Range(1, 1'000'000))->capture_default_str();
  add_list(c, "--columns", q->columns, "What to show; default: axes, gpus and --by");
  c->callback([=] { print(*common, "best", sweep::best_cases(common->database, *q, common->table_options())); });
}

void add_pivot(CLI::App& query, const std::shared_ptr<Common>& common) {
  auto q = std::make_shared<sweep::PivotQuery>();
  auto aggregate = std::make_shared<std::string>("one");
  CLI::App* c = add_question(query, common, "pivot", "A pivot table of a value");
  c->add_option("--rows", q->rows, "Columns whose values make the rows")->delimiter(',')->required();
  add_list(c, "--columns", q->columns, "Columns whose values make the columns");
  c->add_option("--value", q->value, "The value in the table")->capture_default_str();
  std::vector<std::string> names;
  for (const auto& [value, name] : sweep::kAggregateNames) names.emplace_back(name);
  c->add_option("--aggregate", *aggregate,
                "How to combine several cases: min, max, mean or count; one: there is only one")
      ->check(CLI::IsMember(names))
      ->capture_default_str();
  c->add_option("--speedup-over", q->speedup_over,
                "AXIS=VALUE: how many times faster than the same case with this value");
  c->callback([=] {
    for (const auto& [value, name] : sweep::kAggregateNames) {
      if (name == *aggregate) q->aggregate = value;
    }
    print(*common, "pivot", sweep::pivot(common->database, *q, common->table_options()));
  });
}

void add_pareto(CLI::App& query, const std::shared_ptr<Common>& common) {
  auto q = std::make_shared<sweep::ParetoQuery>();
  CLI::App* c = add_question(query, common, "pareto", "The cases that no other beats in all objectives");
  add_list(c, "--objectives", q->objectives,
           "Columns to minimise, max:COLUMN to maximise. Default: makespan_s, gpus, memory_bytes, and the cost with "
           "--price");
  add_list(c, "--columns", q->columns, "What else to show; default: axes");
  c->callback([=] { print(*common, "pareto", sweep::pareto_front(common->database, *q, common->table_options())); });
}

void add_diff(CLI::App& query, const std::shared_ptr<Common>& common) {
  auto q = std::make_shared<sweep::DiffQuery>();
  CLI::App* c = add_question(query, common, "diff", "Cases of two sweeps over the same axes whose results differ");
  c->add_option("other", q->other, "The other database")->required();
  c->add_option("--value", q->value, "The column to compare")->capture_default_str();
  c->add_option("--threshold", q->threshold, "Differences up to this do not count; 0.01 is 1%")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  c->callback(
      [=] { print(*common, "diff", sweep::differences(common->database, *q, common->table_options()), q->other); });
}

void add_table(CLI::App& query, const std::shared_ptr<Common>& common) {
  auto columns = std::make_shared<std::vector<std::string>>();
  CLI::App* c = add_question(query, common, "table", "All rows in order; wall times are in the database only");
  add_list(c, "--columns", *columns, "Only these");
  c->callback(
      [=] { print(*common, "table", sweep::whole_table(common->database, *columns, common->table_options())); });
}

}  // namespace

void add_query_command(CLI::App& app, ExitCode&) {
  auto* c = app.add_subcommand("query", "Ask a sweep's database: best cases, pivot tables, Pareto fronts, differences");
  auto common = std::make_shared<Common>();
  c->add_option("database", common->database, "Written by moeplan sweep")->required();
  c->require_subcommand(1);
  add_best(*c, common);
  add_pivot(*c, common);
  add_pareto(*c, common);
  add_diff(*c, common);
  add_table(*c, common);
}

}  // namespace moeplan::cli
