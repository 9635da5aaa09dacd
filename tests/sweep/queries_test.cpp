// Questions to small databases whose answers can be read off.
#include "planner/sweep/query/queries.hpp"

#include <catch2/catch.hpp>

#include "planner/sweep/sweep_outputs.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::queries_test {

using namespace moeplan::sweep;

namespace {

using Rows = std::vector<std::vector<Cell>>;

Cell whole(std::int64_t n) { return n; }

/// A sweep over world and nic with times by hand.
class Store {
 public:
  explicit Store(const std::string& name = "a.sqlite") : path(dir_.path() / name) {}

  SweepHead head(Shard shard = {}) const {
    SweepHead h{.name = "hand", .kind = "plan", .fingerprint = "f", .cases = 4, .shard = shard, .columns = {}};
    for (const char* c : kSweepColumns) h.columns.push_back({c, ColumnRole::Fixed});
    h.columns.insert(h.columns.end(),
                     {{"world", ColumnRole::Axis}, {"nic", ColumnRole::Axis}, {"makespan_s", ColumnRole::Output}});
    return h;
  }
  static std::vector<Cell> row(std::int64_t number, std::int64_t world, const std::string& nic, Cell makespan) {
    const bool done = !std::holds_alternative<std::monostate>(makespan);
    return {number,
            "key" + std::to_string(number),
            done ? "done" : "infeasible",
            done ? "" : "memory",
            world,
            whole(1000),
            world,
            nic,
            std::move(makespan),
            0.5};
  }
  static Rows rows() {
    return {row(0, 8, "slow", 4.0), row(1, 8, "fast", 2.0), row(2, 16, "slow", Cell()), row(3, 16, "fast", 1.0)};
  }
  void fill(const Rows& rows, const std::string& name, Shard shard = {}) const {
    SweepStore store((dir_.path() / name).string(), head(shard), false);
    for (const auto& r : rows) store.add_row(r);
    store.finish();
  }
  std::string file(const std::string& name) const { return (dir_.path() / name).string(); }
  std::string filled() const {
    fill(rows(), "a.sqlite");
    return path;
  }

 private:
  tests::TemporaryDirectory dir_;

 public:
  std::string path;
};

std::string error_of(auto call) {
  return tests::error_of([&] { (void)call(); });
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("best: the least of all, or of each combination") {
  const Store store;
  const std::string db = store.filled();
  CHECK(best_cases(db, {}, {}).rows == Rows{{whole(16), "fast", whole(16), 1.0}});
  CHECK(best_cases(db, {.per = {"nic"}}, {}).rows ==
        Rows{{whole(8), "slow", whole(8), 4.0}, {whole(16), "fast", whole(16), 1.0}});
  CHECK(best_cases(db, {.highest = true, .columns = {"number"}}, {}).rows == Rows{{whole(0)}});
  CHECK(best_cases(db, {.top = 2, .columns = {"number"}}, {}).rows == Rows{{whole(3)}, {whole(1)}});
  CHECK(best_cases(db, {.columns = {"number"}}, {.where = "world == 8 and nic == 'slow'"}).rows == Rows{{whole(0)}});
  SECTION("by what a million tokens cost: 8 GPUs at 3.6 an hour for 2 s and 1,000 tokens are 16 a million") {
    const auto cheap =
        best_cases(db, {.by = kCostColumn, .columns = {"number", kCostColumn}}, {.prices = parse_prices({"3.6"})});
    REQUIRE(cheap.rows.size() == 1);
    CHECK(std::get<double>(cheap.rows[0][1]) == Approx(3.6 / 3600 * 8 * 2 / 1000 * 1e6));
    const auto dear =
        best_cases(db, {.by = kCostColumn, .columns = {"number"}}, {.prices = parse_prices({"nic=fast:100", "1"})});
    CHECK(dear.rows == Rows{{whole(0)}});
  }
  CHECK(has(error_of([&] { return best_cases(db, {.by = "makespan"}, {}); }),
            "has no column \"makespan\"; did you mean \"makespan_s\"?"));
  CHECK(has(error_of([&] { return best_cases(db, {.by = kCostColumn}, {}); }), "--price: is needed"));
  CHECK(has(error_of([&] { return parse_prices({"x", "-1"}); }), "\"x\" is no price"));
}

TEST_CASE("pivot: a value over rows and columns, missing where no case is") {
  const Store store;
  const std::string db = store.filled();
  const ResultTable table = pivot(db, {.rows = {"world"}, .columns = {"nic"}}, {});
  CHECK(table.columns == std::vector<std::string>{"world", "slow", "fast"});
  CHECK(table.rows == Rows{{whole(8), 4.0, 2.0}, {whole(16), Cell(), 1.0}});
  CHECK(pivot(db, {.rows = {"nic"}, .columns = {}, .aggregate = Aggregate::Mean}, {}).rows ==
        Rows{{"slow", 4.0}, {"fast", 1.5}});
  CHECK(pivot(db, {.rows = {"nic"}, .columns = {}, .aggregate = Aggregate::Count}, {}).rows ==
        Rows{{"slow", whole(1)}, {"fast", whole(2)}});
  CHECK(pivot(db, {.rows = {"world"}, .columns = {"nic"}, .speedup_over = "nic=slow"}, {}).rows ==
        Rows{{whole(8), 1.0, 2.0}, {whole(16), Cell(), Cell()}});
  CHECK(has(error_of([&] { return pivot(db, {.rows = {"nic"}, .columns = {}}, {}); }), "2 cases fall on fast"));
  CHECK(has(error_of([&] {
              return pivot(db, {.rows = {"world"}, .columns = {}, .value = "nic", .aggregate = Aggregate::Min}, {});
            }),
            "it can be counted only"));
  CHECK(has(error_of([&] { return pivot(db, {.rows = {"world"}, .columns = {"nic"}, .speedup_over = "key=1"}, {}); }),
            "is not AXIS=VALUE; axes are world, nic"));
  CHECK(
      has(error_of([&] { return pivot(db, {.rows = {"world"}, .columns = {"nic"}, .speedup_over = "nic=none"}, {}); }),
          "no finished case has nic \"none\""));
}

TEST_CASE("pareto: what no other case beats") {
  const Store store;
  store.fill({Store::row(0, 8, "a", 4.0), Store::row(1, 8, "b", 2.0), Store::row(2, 16, "a", 1.0),
              Store::row(3, 16, "b", 1.0)},
             "p.sqlite");
  const std::string db = store.file("p.sqlite");
  CHECK(pareto_front(db, {.columns = {"number"}}, {}).rows ==
        Rows{{whole(2), 1.0, whole(16)}, {whole(1), 2.0, whole(8)}});
  CHECK(pareto_front(db, {.objectives = {"max:makespan_s"}, .columns = {"number"}}, {}).rows == Rows{{whole(0), 4.0}});
}

TEST_CASE("diff: cases whose status or value differs") {
  const Store store;
  const std::string a = store.filled();
  Rows other = Store::rows();
  other[1] = Store::row(1, 8, "fast", 2.5);
  other[2] = Store::row(2, 16, "slow", 3.0);
  other.pop_back();
  store.fill(other, "b.sqlite");
  const ResultTable table = differences(a, {.other = store.file("b.sqlite")}, {});
  CHECK(table.rows == Rows{{whole(8), "fast", "done", "done", 2.0, 2.5, 1.25},
                           {whole(16), "slow", "infeasible", "done", Cell(), 3.0, Cell()}});
  CHECK(has(table.notes.front(), "2 cases differ, 1 do not; 1 are in"));
  CHECK(differences(a, {.other = store.file("b.sqlite"), .threshold = 0.3}, {}).rows.size() == 1);
}

TEST_CASE("merge: shards become the whole, and contradictions are refused") {
  const Store store;
  const Rows all = Store::rows();
  store.fill({all[0], all[2]}, "1.sqlite", {1, 2});
  store.fill({all[1], all[3]}, "2.sqlite", {2, 2});
  CHECK(merge_sweeps({store.file("2.sqlite"), store.file("1.sqlite")}, store.file("m.sqlite")) == 4);
  const std::string whole_csv = csv_of(whole_table(store.filled(), {}, {}));
  CHECK(csv_of(whole_table(store.file("m.sqlite"), {}, {})) == whole_csv);
  CHECK(has(error_of([&] { return merge_sweeps({store.file("1.sqlite")}, store.file("m.sqlite")); }),
            "exists; merged sweeps go into a new file"));
  SECTION("a row that two have, apart from its time") {
    Rows again{all[0], all[1]};
    again[0].back() = 77.0;
    store.fill(again, "3.sqlite");
    CHECK(merge_sweeps({store.file("1.sqlite"), store.file("3.sqlite")}, store.file("n.sqlite")) == 3);
  }
  SECTION("a row with another result") {
    store.fill({Store::row(0, 8, "slow", 5.0)}, "4.sqlite");
    CHECK(has(error_of([&] {
                return merge_sweeps({store.file("1.sqlite"), store.file("4.sqlite")}, store.file("o.sqlite"));
              }),
              "case 0 is there twice, with different results"));
    CHECK_FALSE(std::filesystem::exists(store.file("o.sqlite")));
    CHECK_FALSE(std::filesystem::exists(store.file("o.sqlite.partial")));
  }
}

TEST_CASE("A database is begun once, gone on with on request, and written by one process") {
  const Store store;
  store.fill({Store::rows()[0]}, "s.sqlite");
  const std::string path = store.file("s.sqlite");
  CHECK(has(error_of([&] { return SweepStore(path, store.head(), false); }), "exists; --resume goes on with it"));
  CHECK(has(error_of([&] { return SweepStore(path, store.head({1, 2}), true); }), "holds shard 1/1 and not 1/2"));
  SweepHead other = store.head();
  other.fingerprint = "g";
  CHECK(has(error_of([&] { return SweepStore(path, other, true); }),
            "belongs to another sweep, or its files have changed"));
  SweepStore first(path, store.head(), true);
  CHECK(first.numbers() == std::vector<std::int64_t>{0});
  CHECK(has(error_of([&] { return SweepStore(path, store.head(), true); }), "is being written by another sweep"));
}

TEST_CASE("Files that are no database of a sweep are refused") {
  const tests::TemporaryDirectory dir;
  CHECK(has(error_of([&] {
              return read_sweep_head(dir.write("text", "name: x\n" + tests::repeated("# no database\n", 200)));
            }),
            "is no SQLite database"));
  CHECK(has(error_of([&] { return read_sweep_head((dir.path() / "none").string()); }), "cannot be opened"));
  const std::string foreign = (dir.path() / "foreign").string();
  Database(foreign, Database::Access::Write).execute("CREATE TABLE cases (x)");
  CHECK(has(error_of([&] { return read_sweep_head(foreign); }), "is no database of a sweep"));
  CHECK(has(error_of([&] { return SweepStore(foreign, SweepHead{}, true); }), "is no database of a sweep"));
  Database(foreign, Database::Access::Write).execute("PRAGMA application_id = 1836017008; PRAGMA user_version = 9");
  CHECK(has(error_of([&] { return read_sweep_head(foreign); }), "has version 9; this program reads 1"));
  Database(foreign, Database::Access::Write).execute("PRAGMA user_version = 1");
  CHECK(has(error_of([&] { return read_sweep_head(foreign); }), "has not the tables of a sweep: no such table: sweep"));
  Database(foreign, Database::Access::Write).execute("CREATE VIEW sweep AS SELECT 'name' AS key, 'x' AS value");
  CHECK(has(error_of([&] { return read_sweep_head(foreign); }), "has not the tables of a sweep: access to view"));
}

TEST_CASE("A sweep's database that somebody changed is refused where a column is missing") {
  const auto table_after = [](const std::string& change) {
    const Store store;
    const std::string path = store.filled();
    Database(path, Database::Access::Write).execute(change);
    return error_of([&] { return whole_table(path, {}, {}); });
  };
  CHECK(has(table_after("ALTER TABLE cases RENAME COLUMN makespan_s TO other"), "no such column: makespan_s"));
  CHECK(has(table_after("DELETE FROM columns"), "its table \"columns\" does not begin with number, key"));
}

TEST_CASE("A table that is wider than the page keeps the columns that say most, and names the others") {
  const std::string reason(60, 'x');
  ResultTable table{.columns = {"a", "same", "reason", "b", "makespan_s"},
                    .rows = {{Cell(std::int64_t{1}), Cell("equal"), Cell(reason), Cell(std::int64_t{7}), Cell(0.5)},
                             {Cell(std::int64_t{2}), Cell("equal"), Cell("y"), Cell(std::int64_t{8}), Cell(0.25)}},
                    .notes = {"a note"}};
  SECTION("and is unchanged where it fits") {
    const ResultTable shown = fitted(table, 100);
    CHECK(shown.columns == table.columns);
    CHECK(shown.rows == table.rows);
    CHECK(shown.notes == table.notes);
  }
  SECTION("with long texts cut before any column is left out") {
    const ResultTable shown = fitted(table, 60);  // 1 + 5 + 32 + 1 + 10, and four gaps of 2: 57
    CHECK(shown.columns == table.columns);
    CHECK(shown.rows[0][2] == Cell(std::string(29, 'x') + "..."));
    CHECK(shown.notes == table.notes);
  }
  SECTION("those whose values differ before those whose values do not") {
    const ResultTable shown = fitted(table, 52);
    CHECK(shown.columns == std::vector<std::string>{"a", "reason", "b", "makespan_s"});
    CHECK(shown.rows[1] == std::vector<Cell>{table.rows[1][0], table.rows[1][2], table.rows[1][3], table.rows[1][4]});
    CHECK(shown.notes == std::vector<std::string>{
                             "a note", "1 of 5 columns do not fit and are left out: same; --csv and --json have all"});
    CHECK(text_of(shown).find("500.0 ms") != std::string::npos);
  }
  SECTION("and essential ones before all") {
    table.essential = {"makespan_s"};
    CHECK(fitted(table, 12).columns == std::vector<std::string>{"makespan_s"});
    CHECK(fitted(table, 20).columns == std::vector<std::string>{"a", "b", "makespan_s"});
    CHECK(fitted(table, 1).columns == std::vector<std::string>{"makespan_s"});
  }
  SECTION("and every line fits") {
    for (std::size_t width = 10; width < 120; ++width) {
      table.essential = {"makespan_s"};
      const std::string text = text_of(fitted(table, width));
      CAPTURE(width, text);
      for (std::size_t from = 0, end = text.find('\n'); end != std::string::npos; end = text.find('\n', from)) {
        CHECK(end - from <= width);
        from = end + 1;
      }
    }
  }
}

TEST_CASE("CSV quotes what needs it and keeps every digit") {
  CHECK(csv_of({{"a", "b"}, {{"x,\"y\"", 0.1}, {Cell(), 1e22}}, {}}) == "a,b\n\"x,\"\"y\"\"\",0.1\n,1e+22\n");
}

}  // namespace moeplan::tests::queries_test
