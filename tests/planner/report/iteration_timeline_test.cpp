#include "planner/report/iteration_timeline.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

namespace moeplan::tests::iteration_timeline_test {

using namespace moeplan::planner;

namespace {

TimeInterval interval(std::int64_t start, std::int64_t end) { return {SimTime(start), SimTime(end)}; }

}  // namespace

TEST_CASE("joined intervals are ascending and disjoint, and close gaps of a given length") {
  const std::vector<TimeInterval> some{interval(20, 30), interval(0, 10), interval(5, 12), interval(12, 13)};
  CHECK(joined_intervals(some) == std::vector{interval(0, 13), interval(20, 30)});
  CHECK(joined_intervals(some, SimTime(7)) == std::vector{interval(0, 30)});
  CHECK(joined_intervals({}).empty());
}

TEST_CASE("the ranks that represent an iteration are first ones of stages, or a few with the binding one") {
  Timeline t;
  t.segment = 4;
  CHECK(representative_ranks(t, 16, 4, RankId(9)) == std::vector{RankId(0), RankId(4), RankId(8), RankId(12)});
  t.segment = t.classes = 16;
  const std::vector<RankId> ranks = representative_ranks(t, 16, 1, RankId(9));
  CHECK(ranks.size() == 8);
  CHECK(std::find(ranks.begin(), ranks.end(), RankId(9)) != ranks.end());
  t.segment = t.classes = 1;
  CHECK(representative_ranks(t, 1, 1, RankId(0)) == std::vector{RankId(0)});
}

}  // namespace moeplan::tests::iteration_timeline_test
