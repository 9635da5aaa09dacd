#include "profiler/stopping_rule.hpp"

#include <catch2/catch.hpp>

#include "model/base/random.hpp"
#include "profiler/statistics.hpp"

namespace moeplan::tests::stopping_rule_test {

using namespace moeplan::profiler;

namespace {

/// Samples until the rule stops, each of `took`; at most 100,000.
std::size_t samples_until(StoppingRule& rule, double noise, Seconds took) {
  Random random(3);
  std::size_t n = 0;
  while (!rule.reason() && n < 100'000) {
    rule.add(Seconds(1e-3 * (1 + noise * random.uniform())), took);
    ++n;
  }
  return n;
}

}  // namespace

TEST_CASE("a measurement is repeated until its median is known") {
  SECTION("equal samples stop at the least number") {
    StoppingRule rule({.least = 8});
    CHECK(samples_until(rule, 0, Seconds(1e-3)) == 8);
    CHECK(rule.reason() == StopReason::Precise);
  }
  SECTION("noisy ones take more, and the interval is then as narrow as asked for") {
    StoppingRule rule({.relative_width = 0.02, .least = 8, .budget = Seconds(1e9)});
    CHECK(samples_until(rule, 0.2, Seconds(1e-3)) > 20);
    CHECK(rule.reason() == StopReason::Precise);
    const Interval i = *median_interval(rule.samples(), 0.95);
    CHECK(i.high - i.low <= 0.02 * median(rule.samples()));
  }
  SECTION("the budget ends it, preparation included") {
    StoppingRule rule({.relative_width = 1e-9, .budget = Seconds(1)});
    CHECK(samples_until(rule, 0.5, Seconds(0.125)) == 8);
    CHECK(rule.reason() == StopReason::Budget);
  }
  SECTION("so does the most samples") {
    StoppingRule rule({.relative_width = 1e-9, .most = 50, .budget = Seconds(1e9)});
    CHECK(samples_until(rule, 0.5, Seconds(1e-3)) == 50);
    CHECK(rule.reason() == StopReason::MostSamples);
  }
  SECTION("too few samples for an interval are never precise") {
    StoppingRule rule({.least = 1, .budget = Seconds(1e9)});
    CHECK(samples_until(rule, 0, Seconds(1e-3)) == 6);
  }
}

}  // namespace moeplan::tests::stopping_rule_test
