#include "planner/reproduction/case_table.hpp"

#include <catch2/catch.hpp>

#include "planner/sweep/read_sweep.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::case_table_test {

using namespace moeplan::reproduction;

namespace {

using Rows = std::vector<std::vector<Cell>>;

Cell whole(std::int64_t n) { return n; }
Formula formula(const std::string& text) { return {text, {"p.yaml", 3}, "rows.r"}; }

/// Two schedules on 8 and 16 ranks, with the chunks of each schedule.
sweep::SweepSpec two_by_two() {
  return sweep::read_sweep(parse_yaml(R"(
name: s
kind: layer
base: {cluster: dgx_h100, model: mixtral_8x7b, workload.micro_batch: 1}
axes: {world: [8, 16]}
zip: [{schedule: [baseline, pipelined], pipeline_degree: [1, 2]}]
outputs: [makespan_s]
)",
                                      "s.yaml"),
                           "s.yaml");
}

/// Times 3, 2, 5, 4 by hand, of which the last may be missing.
std::vector<sweep::CaseResult> results(const sweep::SweepSpec& sweep, bool last_is_missing = false) {
  const std::vector<double> times{3, 2, 5, 4};
  std::vector<sweep::CaseResult> out;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const bool is_missing = last_is_missing && i == 3;
    std::vector<Cell> settings = sweep.cells_at(sweep.cases[i]);
    settings.erase(settings.begin(), settings.begin() + std::ssize(sweep.base));
    out.push_back(
        {.number = static_cast<std::int64_t>(i), .key = {}, .settings = settings, .outcome = {}, .wall_s = 0});
    out.back().outcome.outputs = {is_missing ? Cell() : Cell(times[i])};
    if (is_missing) out.back().outcome.reason = "memory";
  }
  return out;
}

CaseTable times(bool last_is_missing = false) {
  const sweep::SweepSpec sweep = two_by_two();
  return pivoted(sweep, table_of(sweep, results(sweep, last_is_missing)), "schedule", "makespan_s", {"p.yaml", 2});
}

Cell aggregate(const CaseTable& table, Aggregate aggregate, const std::string& text) {
  return aggregate_of(table, Aggregation{aggregate, formula(text)});
}

}  // namespace

TEST_CASE("A pivot has a column for each value of an axis, and a row for each combination of the other axes") {
  const CaseTable table = times();
  CHECK(table.columns == std::vector<std::string>{"world", "baseline", "pipelined"});  // chunks vary with the schedule
  CHECK(table.rows == Rows{{whole(8), 3.0, 2.0}, {whole(16), 5.0, 4.0}});
}

TEST_CASE("A pivot over something that is not there names what is") {
  const sweep::SweepSpec sweep = two_by_two();
  const auto error = [&](const std::string& axis, const std::string& value) {
    return tests::error_of([&] { (void)pivoted(sweep, table_of(sweep, {}), axis, value, {"p.yaml", 2}); });
  };
  CHECK(error("schedul", "makespan_s") == "p.yaml:2: \"schedul\" is no column; did you mean \"schedule\"?");
  CHECK(error("schedule", "makespan").find("did you mean \"makespan_s\"?") != std::string::npos);
}

TEST_CASE("Two cases for one cell of a pivot are an error") {
  const sweep::SweepSpec sweep = two_by_two();
  std::vector<sweep::CaseResult> twice = results(sweep);
  twice[1].settings = twice[0].settings;
  const CaseTable cases = table_of(sweep, twice);
  CHECK(tests::error_of([&] {
          (void)pivoted(sweep, cases, "schedule", "makespan_s", {"p.yaml", 2});
        }) == "p.yaml:2: several cases have schedule baseline");
}

TEST_CASE("Aggregates are those of the expression's values over all rows") {
  const CaseTable table = times();  // baseline / pipelined: 1.5, 1.25
  CHECK(aggregate(table, Aggregate::Min, "baseline / pipelined") == Cell(1.25));
  CHECK(aggregate(table, Aggregate::Max, "baseline / pipelined") == Cell(1.5));
  CHECK(aggregate(table, Aggregate::Mean, "baseline / pipelined") == Cell(1.375));
  CHECK(aggregate(table, Aggregate::Median, "baseline") == Cell(4.0));
  CHECK(aggregate(table, Aggregate::Sum, "baseline") == Cell(8.0));
  CHECK(aggregate(table, Aggregate::Share, "baseline > 4") == Cell(0.5));
  CHECK(aggregate(selected(table, formula("world == 16")), Aggregate::One, "pipelined") == Cell(4.0));
}

TEST_CASE("One value of several rows, of no row, or of a missing time is missing") {
  CHECK(aggregate(times(), Aggregate::One, "baseline") == Cell());
  CHECK(aggregate(selected(times(), formula("world > 16")), Aggregate::Mean, "baseline") == Cell());
  const CaseTable incomplete = times(/*last_is_missing=*/true);
  CHECK(aggregate(incomplete, Aggregate::Max, "pipelined") == Cell());
  CHECK(aggregate(incomplete, Aggregate::Share, "pipelined > 0") == Cell());
  CHECK(aggregate(incomplete, Aggregate::Max, "baseline") == Cell(5.0));
  CHECK(incomplete.reason == "memory");
}

TEST_CASE("Of each group the row nearest to a published number is kept") {
  const CaseTable table = times();  // baseline / pipelined: 1.5, 1.25
  const auto nearest = [&](const std::vector<std::string>& per, double to) {
    return nearest_rows(table, per, formula("baseline / pipelined"), to, {"p.yaml", 4});
  };
  CHECK(nearest({}, 1.3).rows == Rows{{whole(16), 5.0, 4.0}});
  CHECK(nearest({}, 1.375).rows == Rows{{whole(8), 3.0, 2.0}});  // a tie: the first
  CHECK(nearest({"world"}, 1.3).rows == table.rows);
  const CaseTable incomplete = times(/*last_is_missing=*/true);
  CHECK(nearest_rows(incomplete, {}, formula("baseline / pipelined"), 1.25, {"p.yaml", 4}).rows ==
        Rows{{whole(8), 3.0, 2.0}});
}

TEST_CASE("Aggregation keeps the columns that it groups by, in order of first occurrence") {
  const sweep::SweepSpec sweep = two_by_two();
  const CaseTable cases = table_of(sweep, results(sweep));
  const CaseTable table = aggregated(
      cases, {"schedule"},
      {{"longest", {Aggregate::Max, formula("makespan_s")}}, {"mean", {Aggregate::Mean, formula("2 * makespan_s")}}},
      {"p.yaml", 4});
  CHECK(table.columns == std::vector<std::string>{"schedule", "longest", "mean"});
  CHECK(table.rows == Rows{{std::string("baseline"), 5.0, 8.0}, {std::string("pipelined"), 4.0, 6.0}});
  CHECK(tests::error_of([&] {
          (void)aggregated(cases, {"worl"}, {}, {"p.yaml", 4});
        }) == "p.yaml:4: \"worl\" is no column; did you mean \"world\"?");
}

}  // namespace moeplan::tests::case_table_test
