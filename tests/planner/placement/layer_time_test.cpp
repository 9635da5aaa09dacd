#include "planner/placement/layer_time.hpp"

#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>

#include "tests/support/placement_cases.hpp"

namespace moeplan::tests::layer_time_test {

using namespace moeplan::planner;
using moeplan::tests::small_machine;

namespace {

// Four ranks, an expert each, nodes of two. Source s sends counts[s][e] tokens to rank e.
const RoutingCounts kCounts = RoutingCounts::dense(4, 4,
                                                   {10, 20, 30, 40,  //
                                                    50, 60, 70, 80,  //
                                                    15, 25, 35, 45,  //
                                                    55, 65, 75, 85});

}  // namespace

TEST_CASE("A layer takes its computation and four exchanges") {
  PlacementDevices d = small_machine(4, 2);
  const Placement none = contiguous_placement(4, 4);
  const LayerTime t = layer_time(kCounts, none, d);
  const double heaviest = 40 + 80 + 45 + 85;  // expert 3's tokens
  CHECK(t.compute.value() == Approx(heaviest * 1e-6));
  SECTION("an exchange as long as the busiest port; here what rank 1 sends or rank 3 receives through its NIC") {
    const double nic = std::max(70 + 80, 40 + 80) * 1e3 / 1e9, node = (30 + 40 + 70 + 80) * 1e3 / 2e9;
    CHECK(t.exchange.value() == Approx(std::max(nic, node)));
    d.node_bandwidth = BytesPerSecond(1e9);
    CHECK(layer_time(kCounts, none, d).exchange.value() == Approx((30 + 40 + 70 + 80) * 1e3 / 1e9));
    d.nic_bandwidth = d.node_bandwidth = BytesPerSecond(1e15);
    CHECK(layer_time(kCounts, none, d).exchange.value() == Approx(75 * 1e3 / 10e9));  // rank 3 to 2
  }
  SECTION("training: 4 exchanges and 3 computations; forward alone: 2 and 1") {
    CHECK(t.total.value() == Approx(4 * t.exchange.value() + 3 * t.compute.value()));
    d.trains = false;
    CHECK(layer_time(kCounts, none, d).total.value() == Approx(2 * t.exchange.value() + t.compute.value()));
  }
}

TEST_CASE("Parameters of replicas go along a chain, and gradients come back") {
  PlacementDevices d = small_machine(4, 4);
  Placement p = contiguous_placement(4, 4);
  for (const int r : {0, 1, 2}) add_holder(p.experts[3], RankId(r), 0);
  // Home 3, then 2 in its node, then 0 in the other node, then 1: NIC 2 -> 0, node 1 -> node 0, both at 1 MB.
  const LayerTime t = layer_time(kCounts, p, d);
  CHECK(t.parameters.value() == Approx(std::max(1e6 / 1e9, 1e6 / 2e9)));
  CHECK(t.gradients.value() == Approx(1e6 / 1e9));
  CHECK(t.total.value() == Approx((4 * t.exchange + 3 * t.compute + t.parameters + t.gradients).value()));
  SECTION("beside the computation of the block before, only the rest is paid [Pro-Prophet eq. 8]") {
    d.overlaps_transfers = true;
    d.non_expert_time = Seconds(1e-4);
    const double parameters = std::max(0.0, 1e-3 - t.compute.value() - 1e-4);
    const double gradients = std::max(0.0, 1e-3 - 2 * t.compute.value() - 2e-4);
    CHECK(parameters > 0);
    CHECK(layer_time(kCounts, p, d).total.value() ==
          Approx((4 * t.exchange + 3 * t.compute).value() + parameters + gradients));
  }
  SECTION("replicas stay where nothing trains") {
    d.trains = false;
    CHECK(layer_time(kCounts, p, d).parameters == Seconds(0));
  }
}

TEST_CASE("Moving costs what the busiest port has to carry") {
  PlacementDevices d = small_machine(4, 4);
  const Placement none = contiguous_placement(4, 4);
  const Placement swapped = placement_of_homes({2, 1, 0, 3});
  CHECK(migration_time(none, none, d) == Seconds(0));
  CHECK(migration_time(none, swapped, d).value() == Approx(3e6 / 1e9));  // states of two experts, each its own NIC
  Placement replicated = none;
  add_holder(replicated.experts[0], RankId(1), 1);
  CHECK(migration_time(none, replicated, d) == Seconds(0));  // training sends parameters every iteration anyway
  d.trains = false;
  CHECK(migration_time(none, replicated, d).value() == Approx(1e6 / 10e9));
  CHECK(migration_time(replicated, none, d) == Seconds(0));
}

TEST_CASE("Sums that are changed expert by expert are those made at once") {
  rc::prop("what was added and taken away again leaves no trace", [] {
    const RoutingCounts counts = tests::any_counts();
    const PlacementDevices d = tests::any_machine(counts.sources(), counts.experts());
    const ExpertColumns columns(counts);
    const Placement a = tests::any_placement(counts.sources(), counts.experts());
    Placement b = tests::any_placement(counts.sources(), counts.experts());
    b.nearest = a.nearest;
    LayerTraffic traffic(columns, d);
    for (std::size_t e = 0; e < a.experts.size(); ++e) traffic.add(e, a.experts[e], a.nearest);
    for (std::size_t e = 0; e < a.experts.size(); ++e) {
      traffic.remove(e, a.experts[e], a.nearest);
      traffic.add(e, b.experts[e], b.nearest);
    }
    const LayerTime changed = traffic.time(), fresh = layer_time(counts, b, d);
    RC_ASSERT(changed.total == fresh.total);
    RC_ASSERT(changed.parameters == fresh.parameters);
    RC_ASSERT(rank_loads(counts, b, d) == std::vector<std::int64_t>(traffic.loads().begin(), traffic.loads().end()));
    std::int64_t sum = 0, wanted = 0;
    for (const std::int64_t load : traffic.loads()) sum += load;
    for (const std::int64_t load : counts.expert_load()) wanted += load;
    RC_ASSERT(sum == wanted);
  });
}

}  // namespace moeplan::tests::layer_time_test
