// Databases of sweeps that someone has changed by hand.
#include "planner/sweep/sweep_store.hpp"

#include <catch2/catch.hpp>

#include "planner/sweep/query/sweep_table.hpp"
#include "planner/sweep/sweep_outputs.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::sweep_store_test {

using namespace moeplan::sweep;

namespace {

SweepHead head() {
  SweepHead h{.name = "hand", .kind = "plan", .fingerprint = "f", .cases = 2, .shard = {}, .columns = {}};
  for (const char* c : kSweepColumns) h.columns.push_back({c, ColumnRole::Fixed});
  h.columns.insert(h.columns.end(), {{"nic", ColumnRole::Axis},
                                     {"half", ColumnRole::Derived},
                                     {"makespan_s", ColumnRole::Output},
                                     {"tp", ColumnRole::Output},
                                     {"schedule", ColumnRole::Output}});
  return h;
}

std::vector<Cell> row(std::int64_t number, bool is_done) {
  std::vector<Cell> cells{number,
                          "key" + std::to_string(number),
                          is_done ? "done" : "infeasible",
                          "",
                          std::int64_t{8},
                          std::int64_t{1000},
                          "100 Gbps",
                          0.5};
  const std::vector<Cell> outputs{2.0, std::int64_t{4}, "baseline"};
  for (const Cell& output : outputs) cells.push_back(is_done ? output : Cell());
  cells.emplace_back(0.25);
  return cells;
}

/// A database of a case that is done and one that is infeasible, changed by an SQL statement.
class Changed {
 public:
  explicit Changed(const std::string& sql) {
    SweepStore store(path(), head(), /*resume=*/false);
    store.add_row(row(0, true));
    store.add_row(row(1, false));
    store.finish();
    Database(path(), Database::Access::Write).execute(sql);
  }

  std::string path() const { return (folder_.path() / "a.sqlite").string(); }
  std::string after_path(const std::string& error) const {
    CHECK(error.starts_with(path() + ": "));
    return error.substr(std::min(error.size(), path().size() + 2));
  }
  std::string query_error() const {
    return after_path(error_of([&] { (void)read_sweep_table(path(), {"nic"}); }));
  }
  std::string resume_error() const {
    return after_path(error_of([&] { (void)SweepStore(path(), head(), /*resume=*/true).numbers(); }));
  }
  std::string merge_error() const {
    return after_path(error_of([&] { (void)merge_sweeps({path()}, (folder_.path() / "merged.sqlite").string()); }));
  }

 private:
  TemporaryDirectory folder_;
};

}  // namespace

TEST_CASE("A value of another type than its column is refused with its table, row and column") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"UPDATE cases SET makespan_s = 'soon' WHERE number = 0",
       R"(table "cases", row 0, column "makespan_s": "soon" is not a number)"},
      {"UPDATE cases SET tp = x'3432' WHERE number = 1", R"(table "cases", row 1, column "tp": "42" is not a number)"},
      {"UPDATE cases SET gpus = '' WHERE number = 1", R"(table "cases", row 1, column "gpus": "" is not a number)"},
      {"UPDATE cases SET tokens = '1000' WHERE number = 0",
       R"(table "cases", row 0, column "tokens": "1000" is not a number)"},
      {"UPDATE cases SET wall_s = 'long' WHERE number = 1",
       R"(table "cases", row 1, column "wall_s": "long" is not a number)"},
      {"UPDATE cases SET schedule = 7 WHERE number = 0",
       R"(table "cases", row 0, column "schedule": "7" is not a text)"},
      {"UPDATE sweep SET value = 'two' WHERE key = 'cases'",
       R"(table "sweep", row "cases", column "value": "two" is not a whole number)"},
      {"UPDATE sweep SET value = 1.5 WHERE key = 'shards'",
       R"(table "sweep", row "shards", column "value": "1.5" is not a whole number)"},
      {"UPDATE sweep SET value = 3 WHERE key = 'name'",
       R"(table "sweep", row "name", column "value": "3" is not a text)"},
      {"DELETE FROM sweep WHERE key = 'shard'",
       R"(table "sweep", row "shard", column "value": "" is not a whole number)"},
      {"UPDATE columns SET name = 'gpu' WHERE name = 'gpus'",
       "has not the tables of a sweep: its table \"columns\" does not begin with number, key, status, reason, gpus, "
       "tokens"}};
  for (const auto& [sql, error] : cases) {
    CAPTURE(sql);
    const Changed database(sql);
    CHECK(database.query_error() == error);
    CHECK(database.resume_error() == error);
    CHECK(database.merge_error() == error);
  }
}

TEST_CASE("Axes and derived settings have values of any type; outputs of a case that is not done are missing") {
  const Changed database("UPDATE cases SET nic = 12.5, half = 'none' WHERE number = 1");
  const SweepTable table = read_sweep_table(database.path(), {"nic", "half", "makespan_s"});
  CHECK(table.rows == std::vector<std::vector<Cell>>{{"100 Gbps", 0.5, 2.0}, {12.5, "none", Cell()}});
}

}  // namespace moeplan::tests::sweep_store_test
