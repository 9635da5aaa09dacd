#include "model/base/sim_time.hpp"

#include <catch2/catch.hpp>
#include <limits>

#include "tests/support/checks.hpp"

namespace moeplan::tests::sim_time_test {

using moeplan::tests::error_of;

TEST_CASE("Simulated time is whole picoseconds, rounded up once") {
  SECTION("no positive cost becomes zero, because every event must move time on") {
    CHECK(SimTime::from_seconds(Seconds(1e-20)).picoseconds() == 1);
    CHECK(SimTime::from_seconds(Seconds(1.2e-12)).picoseconds() == 2);
    CHECK(SimTime::from_seconds(Seconds(0)).picoseconds() == 0);
  }
  SECTION("a whole number of nanoseconds gains none from the multiplication, because that error is not a cost") {
    for (std::int64_t ns = 1; ns <= 100'000; ++ns) {
      const Seconds t(static_cast<double>(ns) / 1e9);
      if (SimTime::from_seconds(t).picoseconds() != ns * 1000) FAIL(ns << " ns");
    }
  }
  SECTION("a cost over 53 days is an input error, because only absurd sizes or rates lead there") {
    const double most = static_cast<double>(std::numeric_limits<std::int64_t>::max() / 2) * 1e-12;
    CHECK(most / 86400 == Approx(53.4).epsilon(0.001));
    CHECK_NOTHROW(SimTime::from_seconds(Seconds(most * 0.999)));
    CHECK(error_of([] { return SimTime::from_seconds(Seconds(1e7)); }) ==
          "a time of 1e+07 s is outside the model's range (at most 53 days): "
          "check the sizes, rates and counts of the input");
    CHECK_THROWS_AS(SimTime::from_seconds(Seconds(std::numeric_limits<double>::infinity())), InputError);
  }
  SECTION("sums and multiples are checked, because overflow would be silent") {
    const SimTime most(std::numeric_limits<std::int64_t>::max());
    CHECK_THROWS_AS(most + SimTime(1), InputError);
    SimTime sum = most;
    CHECK_THROWS_AS(sum += SimTime(1), InputError);
    CHECK_THROWS_AS(SimTime::scaled(SimTime(1'000'000'000'000), 10'000'000), InputError);
    CHECK(SimTime::scaled(SimTime(7), 6) == SimTime(42));
    CHECK(SimTime(5) - SimTime(2) == SimTime(3));
    CHECK(SimTime(2'500'000'000'000).seconds() == Seconds(2.5));
  }
}

}  // namespace moeplan::tests::sim_time_test
