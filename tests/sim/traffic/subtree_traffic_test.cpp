#include "sim/traffic/subtree_traffic.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::subtree_traffic_test {

using namespace moeplan::sim;

TEST_CASE("Weighted flows on a few resources end as max-min sharing says") {
  double steps = 1e6;
  SECTION("equal flows on one resource: expect one rate, because nothing else holds them") {
    // 3 + 5 flows of 8 B over 2 B/s; the second class's own resource of 10 B/s is wider than its share.
    const SubtreeTraffic t{.capacity = {2, 10},
                           .classes = {{8, 3, 0, 1, 0}, {8, 5, 1, 2, 1}},
                           .uses = {{ResourceId(0), 1}, {ResourceId(1), 1}, {ResourceId(0), 1}},
                           .sums = 2,
                           .slots = {{4, 1, {1}}}};
    const auto got = simulate_subtree(t, steps);
    REQUIRE(got);
    CHECK(got->is_constant);
    CHECK(got->finish_s == std::vector<double>{8 / (2.0 / 8), 8 / (2.0 / 8)});
    CHECK(got->most == std::vector<double>{2.0 / 8, 2.0 / 8});
    CHECK(got->slot_most == std::vector<double>{(4 - 1) * 2.0 / 8});
    CHECK(steps == 1e6);
  }
  SECTION("different sizes: expect the second flow to speed up when the first ends, and the sum to stay") {
    const SubtreeTraffic t{.capacity = {2},
                           .classes = {{1, 1, 0, 1, 0}, {3, 1, 1, 1, 0}},
                           .uses = {{ResourceId(0), 1}, {ResourceId(0), 1}},
                           .sums = 1,
                           .slots = {{1, 0, {0}}}};
    const auto got = simulate_subtree(t, steps);
    REQUIRE(got);
    CHECK_FALSE(got->is_constant);
    CHECK(got->finish_s[0] == Approx(1));  // 1 B/s each
    CHECK(got->finish_s[1] == Approx(2));  // then 2 B/s
    CHECK(got->most[0] == Approx(2));
    CHECK(got->slot_most[0] == Approx(2));  // without the first: 1 B/s, later 2 B/s
    CHECK(steps == 1e6 - 4);
  }
  SECTION("not where the engine would take too many steps") {
    const SubtreeTraffic t{.capacity = {2},
                           .classes = {{1, 1, 0, 1, 0}, {3, 1, 1, 1, 0}},
                           .uses = {{ResourceId(0), 1}, {ResourceId(0), 1}},
                           .sums = 1,
                           .slots = {}};
    steps = 3;
    CHECK_FALSE(simulate_subtree(t, steps));
  }
}

}  // namespace moeplan::tests::subtree_traffic_test
