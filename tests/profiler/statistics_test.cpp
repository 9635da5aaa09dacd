#include "profiler/statistics.hpp"

#include <catch2/catch.hpp>
#include <cmath>

namespace moeplan::tests::statistics_test {

using namespace moeplan::profiler;

TEST_CASE("the median is the middle value or the mean of the two in the middle") {
  CHECK(median({3}) == 3);
  CHECK(median({5, 1, 3}) == 3);
  CHECK(median({4, 1, 3, 2}) == 2.5);
}

TEST_CASE("the 90th percentile is the least value that is not below nine tenths of them") {
  CHECK(p90({3}) == 3);
  CHECK(p90({10, 9, 8, 7, 6, 5, 4, 3, 2, 1}) == 9);
  CHECK(p90({11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}) == 10);
}

TEST_CASE("the median's interval is between order statistics") {
  SECTION(
      "of 10 samples the second and ninth: at most 1 below is missed with 2 (1 + 10) / 2^10 = 2.1 %, of 2 with 11 %") {
    CHECK(median_ranks(10, 0.95) == OrderPair{1, 8});
    CHECK(median_interval({9, 1, 8, 2, 7, 3, 6, 4, 5, 0}, 0.95) == Interval{1, 8});
  }
  SECTION("6 samples are needed for 95 %, because all of 5 lie on one side with 2 / 2^5 = 6.3 %") {
    CHECK_FALSE(median_ranks(5, 0.95));
    CHECK(median_ranks(6, 0.95) == OrderPair{0, 5});
  }
  SECTION("it holds the median as often as it says: 1,000 times 25 normal samples") {
    Random random(5);
    int held = 0;
    for (int i = 0; i < 1000; ++i) {
      std::vector<double> samples;
      for (int j = 0; j < 25; ++j) samples.push_back(random.normal());
      const Interval interval = *median_interval(samples, 0.95);
      held += interval.low <= 0 && interval.high >= 0 ? 1 : 0;
    }
    CHECK(held >= 940);
  }
  SECTION("many samples do not overflow: of n about n/2 - 0.98 sqrt n") {
    const double n = 1e6;
    CHECK(static_cast<double>(median_ranks(1'000'000, 0.95)->low) == Approx(n / 2 - 0.98 * std::sqrt(n)).margin(2));
  }
}

}  // namespace moeplan::tests::statistics_test
