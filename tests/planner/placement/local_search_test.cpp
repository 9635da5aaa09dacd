#include "planner/placement/local_search.hpp"

#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>

#include "planner/search/placement_search.hpp"  // with the other search of the library: each has a type of its own for results
#include "tests/support/placement_cases.hpp"

namespace moeplan::tests::local_search_test {

using namespace moeplan::planner;

TEST_CASE("Local search improves a placement") {
  SECTION("two hot experts on one rank part") {
    const RoutingCounts counts = RoutingCounts::by_expert(2, {50, 50, 1, 1});
    const ExpertColumns columns(counts);
    const SearchTerms terms{.devices = tests::loads_only(2, 2)};
    const ImprovedPlacement found = improve_placement(columns, terms, contiguous_placement(4, 2), 100);
    CHECK(found.price.value() == Approx(102e-6));
    CHECK(found.trials <= 100 + 1);
  }
  SECTION("a hot expert is divided where there is a slot for it") {
    const RoutingCounts counts = RoutingCounts::by_expert(2, {60, 10, 10, 10});
    const ExpertColumns columns(counts);
    const SearchTerms terms{.devices = tests::loads_only(2, 3)};
    const ImprovedPlacement found = improve_placement(columns, terms, contiguous_placement(4, 2), 1000);
    CHECK(found.price.value() == Approx(90e-6));  // 180 tokens on two ranks
  }
  rc::prop("never for the worse, and valid; its price is that of its placement", [] {
    const RoutingCounts counts = tests::any_counts();
    const PlacementDevices d = tests::any_machine(counts.sources(), counts.experts());
    const ExpertColumns columns(counts);
    const Placement start = contiguous_placement(counts.experts(), counts.sources());
    const Placement other = *find_placement_strategy("smartmoe")->place({.counts = counts, .devices = d}).placement;
    const bool moves = *rc::gen::inRange(0, 2) == 1;
    const SearchTerms terms{.devices = d, .current = moves ? &other : nullptr, .iterations = 10};
    const ImprovedPlacement found = improve_placement(columns, terms, start, *rc::gen::inRange<std::int64_t>(0, 300));
    const PlacementProblem problem{
        .counts = counts, .devices = d, .current = terms.current, .iterations = terms.iterations};
    RC_ASSERT(placement_error(found.placement, d, counts.experts()) == std::nullopt);
    RC_ASSERT(found.price == problem.price_of(found.placement));
    RC_ASSERT(found.price <= problem.price_of(start));
  });
}

}  // namespace moeplan::tests::local_search_test
