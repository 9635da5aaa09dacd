#include "planner/placement/placement.hpp"

#include <catch2/catch.hpp>

#include "tests/support/placement_cases.hpp"

namespace moeplan::tests::placement_test {

using namespace moeplan::planner;
using moeplan::tests::small_machine;

TEST_CASE("Without rebalancing, ranks hold consecutive experts") {
  const auto homes = [](std::int64_t experts, std::int64_t ranks) {
    std::vector<int> list;
    for (const ExpertPlacement& place : contiguous_placement(experts, ranks).experts)
      list.push_back(place.home.value());
    return list;
  };
  CHECK(homes(6, 3) == std::vector<int>{0, 0, 1, 1, 2, 2});
  SECTION("some one more, as a Program's holders do") {
    CHECK(homes(8, 3) == std::vector<int>{0, 0, 0, 1, 1, 1, 2, 2});
  }
  SECTION("with fewer experts than ranks some have none") { CHECK(homes(2, 4) == std::vector<int>{0, 2}); }
}

TEST_CASE("Errors of a placement are said") {
  const PlacementDevices devices = small_machine(4, 2);
  Placement p = contiguous_placement(6, 4);
  CHECK_FALSE(placement_error(p, devices, 6));
  CHECK(placement_error(p, devices, 5) == "places 6 experts of 5");
  SECTION("slots") {
    add_holder(p.experts[5], RankId(0), 1);
    CHECK(placement_error(p, devices, 6) == "rank 0 fills 3 slots of 2");
  }
  SECTION("copies fill slots too") {
    add_holder(p.experts[5], RankId(3), 1);
    CHECK(p.experts[5].holders == std::vector<ExpertHolder>{{RankId(3), 2, 2}});
    CHECK(slots_filled(p, 4) == std::vector<std::int64_t>{2, 1, 2, 2});
    CHECK_FALSE(placement_error(p, devices, 6));
  }
  SECTION("a home that does not hold") {
    p.experts[0].home = RankId(3);
    CHECK(placement_error(p, devices, 6) == "the home of expert 0 does not hold it");
  }
  SECTION("nobody to serve") {
    p.experts[2].holders[0].share = 0;
    CHECK(placement_error(p, devices, 6) == "no holder of expert 2 has a share");
    p.experts[2].holders[0].share = -1;
    CHECK(placement_error(p, devices, 6) == "expert 2 has a holder of nothing");
  }
  SECTION("ranks that do not exist, or twice") {
    p.experts[1].holders = {{RankId(4), 1, 1}};
    CHECK(placement_error(p, devices, 6) == "expert 1 is held by rank 4 of 4");
    p.experts[1].holders = {{RankId(0), 1, 1}, {RankId(0), 1, 1}};
    CHECK(placement_error(p, devices, 6) == "the holders of expert 1 are out of order");
  }
}

TEST_CASE("A paper's single bandwidth is the mean over all pairs of ranks") {
  PlacementDevices d = small_machine(4, 2);  // nodes of 2: 10 GB/s inside, 1 GB/s a NIC and 2 GB/s a node
  CHECK(average_bandwidth(d).value() == Approx((1 * 10e9 + 2 * 1e9) / 3));
  d.node_bandwidth = BytesPerSecond(1e9);  // two ranks share it
  CHECK(average_bandwidth(d).value() == Approx((1 * 10e9 + 2 * 0.5e9) / 3));
  d.ranks = d.ranks_per_node = 1;
  CHECK(average_bandwidth(d).value() == Approx(10e9));
}

TEST_CASE("A chain has the bandwidth of its slowest hop") {
  PlacementDevices d = small_machine(4, 2);  // nodes of 2: 10 GB/s inside, 1 GB/s a NIC and 2 GB/s a node
  CHECK(chain_bandwidth(d).value() == Approx(1e9));
  d.nic_bandwidth = BytesPerSecond(20e9);
  CHECK(chain_bandwidth(d).value() == Approx(2e9));
  d.node_bandwidth = BytesPerSecond(20e9);
  CHECK(chain_bandwidth(d).value() == Approx(10e9));
  d.ranks_per_node = 1;  // no hop inside a node
  CHECK(chain_bandwidth(d).value() == Approx(20e9));
  d.ranks_per_node = 4;
  CHECK(chain_bandwidth(d).value() == Approx(10e9));
}

}  // namespace moeplan::tests::placement_test
