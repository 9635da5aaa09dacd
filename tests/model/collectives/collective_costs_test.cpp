#include "model/collectives/collective_costs.hpp"

#include <catch2/catch.hpp>

#include "model/text/unit_text.hpp"

namespace moeplan::tests::collective_costs_test {

namespace {

constexpr double kMiB = 1048576;

/// Figures of 8 ranks on one node from `from` MiB on.
CollectiveKey key_of(Collective collective, double from = 0) {
  return {.collective = collective,
          .span = Span::IntraNode,
          .in_place = false,
          .nodes = 1,
          .ranks = 8,
          .from = Bytes(from * kMiB)};
}

AlphaBeta cost(double microseconds, double picoseconds_a_byte) {
  return {Seconds(microseconds * 1e-6), SecondsPerByte(picoseconds_a_byte * 1e-12)};
}

}  // namespace

TEST_CASE("An all-reduce measured faster than what it contains is found for each shape of groups") {
  CollectiveCosts costs{{key_of(Collective::AllGather), cost(10, 4)}};
  SECTION("beyond noise: three quarters of the all-gather's time pass, because measurements scatter") {
    costs[key_of(Collective::AllReduce)] = cost(10, 3.2);
    CHECK(fast_all_reduces(costs).empty());
    costs[key_of(Collective::AllReduce)] = cost(10, 2);
    const std::vector<FastAllReduce> found = fast_all_reduces(costs);
    REQUIRE(found.size() == 1);
    // The least ratio is that of the largest message: (10 us + 2 ps x 1 GiB) / (10 us + 4 ps x 1 GiB).
    CHECK(found.front().n == Bytes(1024 * kMiB));
    CHECK(found.front().contained == Collective::AllGather);
    CHECK(text_of(found.front()) == "all_reduce intra_node of 8 ranks takes " +
                                        human(Seconds(10e-6 + 1024 * kMiB * 2e-12)) + " for 1.000 GiB, less than the " +
                                        "all_gather of " + human(Seconds(10e-6 + 1024 * kMiB * 4e-12)) +
                                        " that it contains");
  }
  SECTION("by the piece that answers the size") {
    costs[key_of(Collective::AllReduce)] = cost(10, 8);
    costs[key_of(Collective::AllReduce, 64)] = cost(0, 1);
    const std::vector<FastAllReduce> found = fast_all_reduces(costs);
    REQUIRE(found.size() == 1);
    CHECK(found.front().key == key_of(Collective::AllReduce, 64));
  }
  SECTION("not by figures of other shapes") {
    CollectiveKey other = key_of(Collective::AllReduce);
    other.ranks = 4;
    costs[other] = cost(10, 1);
    CHECK(fast_all_reduces(costs).empty());
  }
}

}  // namespace moeplan::tests::collective_costs_test
