#include "planner/ordering/interchangeable.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/order_cases.hpp"

namespace moeplan::tests::interchangeable_test {

using namespace moeplan::planner;

TEST_CASE("Interchangeable chunks go in one order") {
  SECTION("three copies: each kind of task from chunk to chunk") {
    const auto added = non_overtaking(opt_sche_problem(3, picoseconds({1, 2, 3, 4, 5, 6, 7})));
    CHECK(added.size() == 2 * kChunkTasks);
    for (const auto& [a, b] : added) CHECK(b - a == static_cast<std::int32_t>(kChunkTasks));
  }
  SECTION("none where one chunk is longer, because it can be told apart") {
    OrderProblem problem = opt_sche_problem(2, picoseconds({1, 2, 3, 4, 5, 6, 7}));
    problem[3].duration += SimTime(1);
    CHECK(non_overtaking(problem).empty());
  }
  SECTION("none where the second chunk comes after the first") {
    OrderProblem problem = opt_sche_problem(2, picoseconds({1, 2, 3, 4, 5, 6, 7}));
    problem[kChunkTasks].after = {3};
    CHECK(non_overtaking(problem).empty());
  }
  SECTION("first what is alike inside each chunk, then the chunks") {
    const auto t = [](std::int64_t time, std::vector<std::int32_t> after) {
      return OrderTask{SimTime(time), 0, after};
    };
    const OrderProblem problem{t(1, {}), t(5, {0}), t(5, {0}), t(1, {}), t(5, {3}), t(5, {3})};
    const auto added = non_overtaking(problem);
    const auto has = [&](std::int32_t a, std::int32_t b) {
      return std::find(added.begin(), added.end(), std::pair(a, b)) != added.end();
    };
    CHECK(added.size() == 2 + 3);
    CHECK((has(1, 2) && has(4, 5) && has(0, 3) && has(1, 4) && has(2, 5)));
  }
}

}  // namespace moeplan::tests::interchangeable_test
