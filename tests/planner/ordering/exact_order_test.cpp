#include "planner/ordering/exact_order.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "tests/support/order_cases.hpp"

namespace moeplan::tests::exact_order_test {

using namespace moeplan::planner;

namespace {

/// The best of all orders, one by one.
class BruteForce {
 public:
  explicit BruteForce(const OrderProblem& problem) : problem_(problem) { extend(); }
  [[nodiscard]] SimTime best() const { return *best_; }

 private:
  void extend() {
    if (order_.size() == problem_.size()) {
      const SimTime t = order_makespan(problem_, order_);
      if (!best_ || t < *best_) best_ = t;
    }
    for (std::size_t i = 0; i < problem_.size(); ++i) {
      const auto is_placed = [&](std::int32_t t) { return std::find(order_.begin(), order_.end(), t) != order_.end(); };
      const auto& after = problem_[i].after;
      if (is_placed(static_cast<std::int32_t>(i)) || !std::all_of(after.begin(), after.end(), is_placed)) continue;
      order_.push_back(static_cast<std::int32_t>(i));
      extend();
      order_.pop_back();
    }
  }

  const OrderProblem& problem_;
  std::vector<std::int32_t> order_;
  std::optional<SimTime> best_;
};

/// Few different times, so that ties and zero are common.
SimTime any_duration() { return SimTime(in_range(0, 3) == 0 ? in_range(0, 40) : in_range(0, 6)); }

OrderProblem any_problem(std::int64_t tasks) {
  const std::int64_t streams = in_range(1, 3), sparse = in_range(0, 5);
  OrderProblem problem;
  for (std::int64_t i = 0; i < tasks; ++i) {
    OrderTask task{any_duration(), static_cast<std::int32_t>(in_range(0, streams - 1)), {}};
    for (std::int64_t a = 0; a < i; ++a) {
      if (in_range(0, sparse) == 0) task.after.push_back(static_cast<std::int32_t>(a));
    }
    problem.push_back(task);
  }
  return problem;
}

/// Copies of a chunk between what all of them come after and what comes after all of them.
OrderProblem any_chunks(std::int64_t chunks, std::int64_t tasks, bool has_ends) {
  const OrderProblem chunk = any_problem(tasks);
  OrderProblem problem;
  if (has_ends) problem.push_back({any_duration(), static_cast<std::int32_t>(in_range(0, 1)), {}});
  const auto first = static_cast<std::int32_t>(problem.size());
  for (std::int64_t c = 0; c < chunks; ++c) {
    const auto base = static_cast<std::int32_t>(problem.size());
    for (OrderTask task : chunk) {
      for (std::int32_t& a : task.after) a += base;
      if (task.after.empty() && has_ends) task.after.push_back(0);
      problem.push_back(task);
    }
  }
  if (!has_ends) return problem;
  OrderTask last{any_duration(), static_cast<std::int32_t>(in_range(0, 1)), {}};
  for (auto i = first; i < static_cast<std::int32_t>(problem.size()); ++i) last.after.push_back(i);
  problem.push_back(last);
  return problem;
}

bool keeps_precedences(const OrderProblem& problem, const std::vector<std::int32_t>& order) {
  std::vector<std::size_t> place(problem.size(), problem.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[static_cast<std::size_t>(order[i])] = i;
  for (std::size_t i = 0; i < problem.size(); ++i) {
    if (place[i] == problem.size()) return false;
    for (const std::int32_t a : problem[i].after) {
      if (place[static_cast<std::size_t>(a)] > place[i]) return false;
    }
  }
  return order.size() == problem.size();
}

void check_against_brute_force(const OrderProblem& problem) {
  const OrderResult result = exact_order(problem);
  RC_ASSERT(result.proved);
  RC_ASSERT(keeps_precedences(problem, result.order));
  RC_ASSERT(order_makespan(problem, result.order) == result.makespan);
  RC_ASSERT(result.lower_bound == result.makespan);
  RC_ASSERT(result.makespan == BruteForce(problem).best());
}

}  // namespace

TEST_CASE("The best order is what trying all orders finds", "[slow]") {
  rc::prop("random problems of up to 8 tasks", [] { check_against_brute_force(any_problem(in_range(0, 7))); });
  rc::prop("8 tasks", [] { check_against_brute_force(any_problem(8)); });
  rc::prop("copies of a chunk", [] {
    const std::int64_t chunks = in_range(2, 4);
    check_against_brute_force(any_chunks(chunks, 8 / chunks, false));
  });
  rc::prop("copies of a chunk between common tasks", [] {
    const std::int64_t chunks = in_range(2, 3);
    check_against_brute_force(any_chunks(chunks, 6 / chunks, true));
  });
}

TEST_CASE("The search looks beyond schedules that never wait") {
  // b (4) is on the stream of the long c (10), which can start once a (1) has ended and has a tail of 10 behind it.
  const OrderProblem problem{{SimTime(1), 1, {}}, {SimTime(4), 0, {}}, {SimTime(10), 0, {0}}, {SimTime(10), 1, {2}}};
  SECTION("expect 1 + 10 + 10: stream 0 waits for a, because starting b at 0 would delay c by 3") {
    const OrderResult result = exact_order(problem);
    CHECK(result.makespan == SimTime(1 + 10 + 10));
    CHECK(result.proved);
    CHECK(order_makespan(problem, std::vector<std::int32_t>{0, 1, 2, 3}) == SimTime(4 + 10 + 10));
  }
}

TEST_CASE("The answer depends on a budget of states") {
  const std::array<std::int64_t, kChunkTasks> durations{13, 29, 5, 31, 7, 23, 11};
  OrderProblem problem = opt_sche_problem(3, picoseconds(durations));
  for (std::size_t i = 0; i < problem.size(); ++i) problem[i].duration += SimTime(static_cast<std::int64_t>(i % 5));
  const OrderResult whole = exact_order(problem);
  REQUIRE(whole.proved);
  SECTION("with none the listed order is kept, bounded from below, and called heuristic") {
    const OrderResult none = exact_order(problem, 0);
    CHECK(none.nodes == 0);
    CHECK_FALSE(none.proved);
    CHECK(answered_by(none) == "heuristic");
    CHECK(none.makespan == order_makespan(problem, none.order));
    CHECK(none.lower_bound <= whole.makespan);
    CHECK(none.makespan >= whole.makespan);
  }
  SECTION("a larger one gives no worse order and no looser bound than the truth") {
    SimTime before = exact_order(problem, 0).makespan;
    for (const std::int64_t budget : {1, 4, 16, 64, 256}) {
      const OrderResult result = exact_order(problem, budget);
      CHECK(result.nodes <= budget);
      CHECK(result.makespan <= before);
      CHECK(result.makespan >= whole.makespan);
      CHECK(result.lower_bound <= whole.makespan);
      CHECK(result.proved == (result.makespan == result.lower_bound));
      before = result.makespan;
    }
  }
}

}  // namespace moeplan::tests::exact_order_test
