#include "planner/placement/exact_placement.hpp"

#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "tests/support/placement_cases.hpp"

namespace moeplan::tests::exact_placement_test {

using namespace moeplan::planner;

namespace {

using Homes = std::vector<std::int64_t>;

/// Every assignment within the slots.
void for_all(std::int64_t experts, std::int64_t ranks, std::int64_t slots,
             const std::function<void(const Homes&)>& call) {
  Homes homes(static_cast<std::size_t>(experts), 0);
  while (true) {
    std::vector<std::int64_t> held(static_cast<std::size_t>(ranks), 0);
    for (const std::int64_t r : homes) ++held[static_cast<std::size_t>(r)];
    if (*std::max_element(held.begin(), held.end()) <= slots) call(homes);
    std::size_t e = 0;
    while (e < homes.size() && ++homes[e] == ranks) homes[e++] = 0;
    if (e == homes.size()) return;
  }
}

std::int64_t largest(const std::vector<std::int64_t>& loads, std::int64_t ranks, const Homes& homes) {
  std::vector<std::int64_t> sums(static_cast<std::size_t>(ranks), 0);
  for (std::size_t e = 0; e < loads.size(); ++e) sums[static_cast<std::size_t>(homes[e])] += loads[e];
  return *std::max_element(sums.begin(), sums.end());
}

std::vector<std::int64_t> loads_of(RoutingShape shape, std::int64_t ranks, std::int64_t experts, std::uint64_t seed) {
  return make_routing({.shape = shape, .zipf_exponent = 0.8, .sampled = true, .seed = seed}, ranks, experts, 2048, 2, 1)
      .expert_load();
}

}  // namespace

TEST_CASE("The least largest load is found exactly") {
  rc::prop("as by trying every placement", [] {
    const auto experts = *rc::gen::inRange<std::int64_t>(1, 8), ranks = *rc::gen::inRange<std::int64_t>(1, 5);
    const std::int64_t slots = ceil_div(experts, ranks) + *rc::gen::inRange<std::int64_t>(0, 2);
    std::vector<std::int64_t> loads;
    for (std::int64_t e = 0; e < experts; ++e) loads.push_back(*rc::gen::inRange<std::int64_t>(0, 12));
    std::int64_t least = INT64_MAX;
    for_all(experts, ranks, slots, [&](const Homes& homes) { least = std::min(least, largest(loads, ranks, homes)); });
    const ExactLoad exact = exact_load(loads, ranks, slots);
    RC_ASSERT(exact.proved);
    RC_ASSERT(exact.largest == least);
    RC_ASSERT(exact.lower_bound == least);
    RC_ASSERT(largest(loads, ranks, exact.homes) == least);
    std::vector<std::int64_t> held(static_cast<std::size_t>(ranks), 0);
    for (const std::int64_t r : exact.homes) ++held[static_cast<std::size_t>(r)];
    RC_ASSERT(*std::max_element(held.begin(), held.end()) <= slots);
  });
  SECTION("24 experts on 8 ranks of 3 slots are proved, whatever the shape of the loads") {
    for (const RoutingShape shape : {RoutingShape::Uniform, RoutingShape::Zipf, RoutingShape::Lognormal}) {
      for (std::uint64_t seed = 1; seed <= 5; ++seed) CHECK(exact_load(loads_of(shape, 8, 24, seed), 8, 3).proved);
    }
  }
  SECTION("when the budget ends, the bound says how far it may be off") {
    const auto loads = loads_of(RoutingShape::Lognormal, 8, 24, 1);
    const ExactLoad early = exact_load(loads, 8, 3, 5), full = exact_load(loads, 8, 3);
    CHECK(early.lower_bound <= full.largest);
    CHECK(early.largest >= full.largest);
    CHECK_FALSE(early.proved);
  }
}

TEST_CASE("The least layer time is found exactly") {
  rc::prop("as by trying every placement", [] {
    const auto experts = *rc::gen::inRange<std::int64_t>(1, 6);
    const auto ranks = *rc::gen::element<std::int64_t>(1, 2, 3, 4);
    PlacementDevices d = tests::small_machine(ranks, ceil_div(experts, ranks) + *rc::gen::inRange<std::int64_t>(0, 2));
    d.ranks_per_node = *rc::gen::inRange<std::int64_t>(1, ranks + 1);
    const bool equal = *rc::gen::inRange(0, 2) == 1;
    std::vector<std::int64_t> counts(static_cast<std::size_t>(equal ? experts : ranks * experts));
    for (auto& c : counts) c = *rc::gen::inRange<std::int64_t>(0, 1000);
    const RoutingCounts routing =
        equal ? RoutingCounts::by_expert(ranks, counts) : RoutingCounts::dense(ranks, experts, counts);
    Seconds least(1e300);
    for_all(experts, ranks, d.slots, [&](const Homes& homes) {
      least = std::min(least, layer_time(routing, placement_of_homes(homes), d).total);
    });
    Homes start;
    for (const ExpertPlacement& place : contiguous_placement(experts, ranks).experts)
      start.push_back(place.home.value());
    const ExactPrice exact = exact_price(routing, d, start);
    RC_ASSERT(exact.proved);
    RC_ASSERT(exact.lower_bound == exact.price);
    RC_ASSERT(exact.price <= least * (1 + 1e-12));
    RC_ASSERT(layer_time(routing, placement_of_homes(exact.homes), d).total == exact.price);
    const ExactPrice early = exact_price(routing, d, start, 3);
    RC_ASSERT(early.lower_bound <= least * (1 + 1e-12));
    RC_ASSERT(early.price >= least);
  });
  const auto solved = [](RoutingShape shape, std::uint64_t seed, std::int64_t budget) {
    const RoutingCounts counts =
        make_routing({.shape = shape, .zipf_exponent = 0.5, .sampled = true, .seed = seed}, 8, 24, 2048, 2, 3);
    Homes start;
    for (const ExpertPlacement& place : contiguous_placement(24, 8).experts) start.push_back(place.home.value());
    return exact_price(counts, tests::small_machine(8, 3), start, budget);
  };
  SECTION("24 experts on two nodes of 4 ranks are proved, whatever the shape of the loads") {
    for (const RoutingShape shape : {RoutingShape::Zipf, RoutingShape::Lognormal, RoutingShape::HotExpert}) {
      for (std::uint64_t seed = 1; seed <= 3; ++seed) CHECK(solved(shape, seed, kExactPlacementBudget).proved);
    }
  }
  SECTION("when the budget ends, the bound says how far it may be off") {
    const ExactPrice early = solved(RoutingShape::Lognormal, 1, 50),
                     full = solved(RoutingShape::Lognormal, 1, kExactPlacementBudget);
    CHECK_FALSE(early.proved);
    CHECK(early.lower_bound < early.price);
    CHECK(early.lower_bound <= full.price);
    CHECK(early.price >= full.price);
  }
}

}  // namespace moeplan::tests::exact_placement_test
