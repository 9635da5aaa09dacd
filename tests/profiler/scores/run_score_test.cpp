#include "profiler/scores/run_score.hpp"

#include <catch2/catch.hpp>
#include <cmath>

namespace moeplan::tests::run_score_test {

using namespace moeplan::profiler;

namespace {

/// Rows of one group, with measured and predicted seconds.
struct Table {
  std::vector<RunRow> rows;
  std::vector<ScoredRun> scored;

  void add(const std::string& group, double measured, double predicted, std::int64_t microbatches = 1) {
    RunRow row;
    row.id = std::to_string(rows.size());
    row.groups = {group};
    scored.push_back({.row = rows.size(),
                      .measured = Seconds(measured),
                      .predicted = Seconds(predicted),
                      .status = RunStatus::Ok,
                      .microbatches = microbatches,
                      .seconds_per_token_and_gpu = 1});
    rows.push_back(std::move(row));
  }
  [[nodiscard]] RunGroup only() const {
    const std::vector<RunGroup> groups = score_run_groups(rows, scored);
    REQUIRE(groups.size() == 1);
    return groups.front();
  }
};

}  // namespace

TEST_CASE("A summary has the errors of time and of memory, each over the rows that have it") {
  Table t;
  t.add("", 1, 1.1);
  t.add("", 2, 1.6);
  t.scored[0].measured_memory = Bytes(100);
  t.scored[0].predicted_memory = Bytes(90);
  t.scored.push_back({.row = 1, .status = RunStatus::Refused});
  t.scored.push_back({.row = 1, .measured = Seconds(1), .status = RunStatus::Infeasible});
  const RunSummary s = summarise(t.scored);
  CHECK(s.rows == 4);
  CHECK(s.scored == 2);
  CHECK(s.refused == 1);
  CHECK(s.infeasible == 1);
  CHECK(s.mape == Approx((0.1 + 0.2) / 2));
  CHECK(s.worst == Approx(0.2));
  CHECK(s.bias == Approx((std::log(1.1) + std::log(0.8)) / 2));
  CHECK(s.memory_rows == 1);
  CHECK(s.memory_mape == Approx(0.1));
  CHECK(s.memory_p90 == Approx(0.1));
}

TEST_CASE("Rows that state their work have a summary of their own") {
  Table t;
  t.add("", 1, 1.1);
  t.add("", 2, 1.6);
  t.add("", 3, 3);
  for (RunRow& row : t.rows) {
    row.precision = "bf16";
    row.micro_batch = 1;
    row.global_batch = 8;
    row.sequence_length = 4096;
  }
  CHECK(with_stated_work(t.rows, t.scored).size() == 3);
  t.rows[0].sequence_length.reset();
  t.rows[2].precision.clear();
  const RunSummary s = summarise(with_stated_work(t.rows, t.scored));
  CHECK(s.scored == 1);
  CHECK(s.mape == Approx(0.2));
}

TEST_CASE("Groups say what their kind is about") {
  Table t;
  SECTION("delta: the change against the first row, whose sign is right or wrong") {
    for (const auto& [measured, predicted] : {std::pair{10.0, 20.0}, {8.0, 18.0}, {12.0, 19.0}, {10.1, 20.2}})
      t.add("delta:x", measured, predicted);
    const RunGroup g = t.only();
    REQUIRE(g.changes.size() == 3);
    CHECK(g.changes[0].measured == Approx(-0.2));
    CHECK(g.changes[0].predicted == Approx(-0.1));
    CHECK(g.changes[0].has_right_sign());
    CHECK_FALSE(g.changes[1].has_right_sign());
    CHECK(g.changes[2].has_right_sign());  // 1% is noise, and so is the prediction
  }
  SECTION("ladder: the change against the row before") {
    for (const auto& [measured, predicted] : {std::pair{10.0, 20.0}, {8.0, 18.0}, {4.0, 17.0}})
      t.add("ladder:x", measured, predicted);
    const RunGroup g = t.only();
    REQUIRE(g.changes.size() == 2);
    CHECK(g.changes[1].measured == Approx(-0.5));
    CHECK(g.changes[1].predicted == Approx(17.0 / 18.0 - 1));
  }
  SECTION("rank: correlation of the orders, and the cost of choosing by prediction") {
    // Measured order 0 1 2 3, predicted 1 0 3 2: 1 - 6 (1 + 1 + 1 + 1) / (4 (16 - 1)).
    for (const auto& [measured, predicted] : {std::pair{1.0, 2.0}, {1.5, 1.0}, {2.0, 9.0}, {3.0, 8.0}})
      t.add("rank:x", measured, predicted);
    const RunGroup g = t.only();
    CHECK(*g.spearman == Approx(1 - 6.0 * 4 / (4 * 15)));
    CHECK(*g.regret == Approx(0.5));
  }
  SECTION("slope: of a microbatch, so that fixed costs cancel") {
    for (const std::int64_t n : {4, 8, 32}) {
      const auto count = static_cast<double>(n);
      t.add("slope:x", 1 + 0.5 * count, 3 + 0.4 * count, n);
    }
    CHECK(t.only().measured_slope->value() == Approx(0.5));
    CHECK(t.only().predicted_slope->value() == Approx(0.4));
  }
  SECTION("repeat: how far one job differs from itself") {
    for (const double measured : {10.0, 11.0, 12.0}) t.add("repeat:x", measured, 5);
    CHECK(*t.only().spread == Approx(0.2));
    CHECK(*t.only().least_mape == Approx((0.1 + 0 + 1.0 / 12) / 3));
  }
  SECTION("fit: whether what ran fits and what ran out of memory does not") {
    t.add("fit:x", 1, 1);
    t.add("fit:x", 1, 1);
    t.rows[1].outcome = RunOutcome::OutOfMemory;
    CHECK(t.only().right == 1);
    t.scored[1].status = RunStatus::Infeasible;
    CHECK(t.only().right == 2);
  }
}

}  // namespace moeplan::tests::run_score_test
