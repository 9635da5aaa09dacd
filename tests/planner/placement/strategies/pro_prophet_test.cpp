#include "planner/placement/strategies/pro_prophet.hpp"

#include <catch2/catch.hpp>

#include "tests/support/placement_cases.hpp"

namespace moeplan::tests::pro_prophet_test {

using namespace moeplan::planner;

namespace {

PlacementDevices one_node(std::int64_t ranks) {
  PlacementDevices d = tests::small_machine(ranks, ranks);
  d.ranks_per_node = ranks;  // B is 10 GB/s
  return d;
}

}  // namespace

TEST_CASE("Pro-Prophet's performance model") {
  PlacementDevices d = one_node(8);
  // R = 300, H = 500, s = 2 experts to all but n = 2 of D = 8 devices.
  const double a2a = 300 * 1e3 / 10e9, fec = 500 * 1e-6, trans = 2.0 * (8 - 2) / 8 * 1e6 / 10e9, agg = trans;
  CHECK(pro_prophet_time(300, 500, 2, 2, d, false).value() == Approx(4 * a2a + 3 * fec + trans + agg));
  SECTION("eq. 8: transfers beside computation") {
    d.parameter_bytes = d.gradient_bytes = Bytes(50e6);
    d.non_expert_time = Seconds(1e-3);
    const double large = 2.0 * (8 - 2) / 8 * 50e6 / 10e9;
    CHECK(pro_prophet_time(300, 500, 2, 2, d, true).value() ==
          Approx(4 * a2a + 3 * fec + (large - fec - 1e-3) + (large - 2 * fec - 2e-3)));
    d.parameter_bytes = d.gradient_bytes = Bytes(1e6);
    CHECK(pro_prophet_time(300, 500, 2, 2, d, true).value() == Approx(4 * a2a + 3 * fec));
  }
}

TEST_CASE("Between nodes, Trans and Agg have the bandwidth of a chain, A2A the average over pairs") {
  const PlacementDevices d = tests::small_machine(4, 4);  // nodes of 2: 10 GB/s inside, 1 GB/s a NIC
  const double average = (1 * 10e9 + 2 * 1e9) / 3;
  CHECK(pro_prophet_time(300, 500, 2, 0, d, false).value() ==
        Approx(4 * 300 * 1e3 / average + 3 * 500 * 1e-6 + 2 * 2 * 1e6 / 1e9));
}

TEST_CASE("Pro-Prophet's planner sends heavy experts to those who need them") {
  const PlacementDevices d = one_node(4);
  const std::vector<std::int64_t> homes{0, 1, 2, 3}, free(4, 3);
  SECTION("to all devices, n = 0") {
    const ExpertColumns columns(RoutingCounts::by_expert(4, {1000, 10, 10, 10}));
    const ProProphetPlan plan = pro_prophet_plan(columns, homes, free, 0, 0.1, d, false);
    CHECK(plan.selected == std::vector<std::size_t>{0});
    // Before: 4,000 on device 0, of which 3,000 received. After: 1,000 + 40 each, 30 received.
    CHECK(plan.time_before.value() == Approx(4 * 3000e3 / 10e9 + 3 * 4000e-6));
    CHECK(plan.time.value() == Approx(4 * 30e3 / 10e9 + 3 * 1040e-6 + 2 * 1e6 / 10e9));
  }
  SECTION("but the n with the fewest inputs for it") {
    const ExpertColumns columns(RoutingCounts::dense(4, 4,
                                                     {500, 1, 1, 1,  //
                                                      5, 1, 1, 1,    //
                                                      900, 1, 1, 1,  //
                                                      800, 1, 1, 1}));
    const ProProphetPlan plan = pro_prophet_plan(columns, homes, free, 1, 0.1, d, false);
    REQUIRE(plan.selected == std::vector<std::size_t>{0});
    CHECK(plan.not_sent[0] == std::vector<char>{0, 1, 0, 0});
  }
  SECTION("nor to a device without a free slot") {
    const ExpertColumns columns(RoutingCounts::by_expert(4, {1000, 10, 10, 10}));
    const ProProphetPlan plan = pro_prophet_plan(columns, homes, {3, 3, 0, 3}, 0, 0.1, d, false);
    REQUIRE(plan.selected == std::vector<std::size_t>{0});
    CHECK(plan.not_sent[0] == std::vector<char>{0, 0, 1, 0});
  }
  SECTION("nothing where loads are balanced, or transfers cost more than they save") {
    CHECK(pro_prophet_plan(ExpertColumns(RoutingCounts::uniform(4, 4, 9)), homes, free, 0, 0.5, d, false)
              .selected.empty());
    PlacementDevices slow = d;
    slow.parameter_bytes = slow.gradient_bytes = Bytes(1e12);
    const ExpertColumns columns(RoutingCounts::by_expert(4, {1000, 10, 10, 10}));
    CHECK(pro_prophet_plan(columns, homes, free, 0, 0.1, slow, false).selected.empty());
  }
}

}  // namespace moeplan::tests::pro_prophet_test
