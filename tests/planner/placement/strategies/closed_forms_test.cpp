#include "planner/placement/strategies/closed_forms.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "planner/placement/shadow.hpp"
#include "tests/support/placement_cases.hpp"

namespace moeplan::tests::closed_forms_test {

using namespace moeplan::planner;

TEST_CASE("The papers' closed forms of a placement") {
  // Four ranks of one node with an expert each, 10 GB/s, a token 1 us and 1 kB, parameters 1 MB; of every rank's 100
  // tokens expert 0 takes 70.
  PlacementDevices d = tests::small_machine(4, 2);
  d.ranks_per_node = 4;
  const RoutingCounts counts = RoutingCounts::by_expert(4, {70, 10, 10, 10});
  Placement placement = contiguous_placement(4, 4);
  SECTION("without copies: loads 280, 40, 40, 40, of which 210 and 30 come from others") {
    const PlacementForms forms = placement_forms(counts, placement, d);
    CHECK(forms.fastermoe.value() == Approx(3 * 280e-6 + 4 * 280 * 1e3 / 10e9));
    CHECK(forms.pro_prophet.value() == Approx(4 * 210 * 1e3 / 10e9 + 3 * 280e-6));
    CHECK(forms.pro_prophet_scheduled == forms.pro_prophet);
    CHECK(forms.balance_degree == Approx(std::sqrt((180.0 * 180 + 3 * 60 * 60) / 4)));
  }
  SECTION("with expert 0 on all ranks: loads 70, 110, 110, 110; transfers hide under 110 and 220 us") {
    std::vector<std::int64_t> free = slots_free(placement, d);
    shadow(placement.experts[0], free);
    const PlacementForms forms = placement_forms(counts, placement, d);
    CHECK(forms.fastermoe.value() == Approx(3 * 110e-6 + 2 * 1e6 / 10e9));
    CHECK_FALSE(forms.sends_less);  // alpha H' = 1 MB / 2 kB = 500 tokens, the fullest rank has 280
    CHECK(forms.saves_more);        // 3 x 170 us of computation for 4 x 220 kB of communication, 88 us
    CHECK(forms.pro_prophet.value() == Approx(4 * 30 * 1e3 / 10e9 + 3 * 110e-6 + 2 * 1e6 / 10e9));
    CHECK(forms.pro_prophet_scheduled.value() == Approx(4 * 30 * 1e3 / 10e9 + 3 * 110e-6));
    CHECK(forms.balance_degree == Approx(std::sqrt((30.0 * 30 + 3 * 10 * 10) / 4)));
  }
}

}  // namespace moeplan::tests::closed_forms_test
