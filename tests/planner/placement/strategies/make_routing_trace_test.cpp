#include "tests/support/routing/make_routing_trace.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/workload/routing_statistics.hpp"

namespace moeplan::tests::make_routing_trace_test {

namespace {

using Load = std::vector<std::int64_t>;
const RoutingScenario kHot{.shape = RoutingShape::HotExpert, .hot_fraction = 0.25, .hot_factor = 5, .seed = 3};

}  // namespace

TEST_CASE("Routing moves by a rule") {
  SECTION("steady: every iteration as make_routing makes it") {
    const RoutingTrace t = make_routing_trace({.routing = kHot, .iterations = 3, .layers = 2}, 4, 8, 96, 2, 2);
    CHECK(t.counts(0, 1) == t.counts(2, 1));
    // 2 of 8 experts are hot: shares 5 / 16 and 1 / 16 of 192 selections a source.
    Load sorted = t.expert_load(0, 0);
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == Load{48, 48, 48, 48, 48, 48, 240, 240});
  }
  SECTION("rotating: every period the hot set is a step further, because plans of before are stale then") {
    const RoutingTrace t = make_routing_trace(
        {.routing = kHot, .motion = RoutingMotion::Rotating, .iterations = 25, .layers = 1, .period = 3, .step = 2}, 2,
        8, 96, 2, 2);
    CHECK(t.counts(0, 0) == t.counts(2, 0));
    for (const std::size_t i : {3U, 7U, 20U}) {
      Load moved = t.expert_load(0, 0);
      std::rotate(moved.begin(), moved.begin() + static_cast<std::ptrdiff_t>((8 - i / 3 * 2 % 8) % 8), moved.end());
      CHECK(t.expert_load(i, 0) == moved);
    }
    CHECK(t.counts(24, 0) == t.counts(0, 0));  // 8 steps of 2 are twice around
  }
  SECTION("burst: the last iterations of a period have one expert far more popular") {
    const RoutingTrace t = make_routing_trace({.routing = {.shape = RoutingShape::Balanced},
                                               .motion = RoutingMotion::Burst,
                                               .iterations = 20,
                                               .period = 5,
                                               .burst_length = 2,
                                               .burst_factor = 9},
                                              2, 8, 160, 1, 2);
    for (std::size_t i = 0; i < 20; ++i) {
      Load load = t.expert_load(i, 0);
      const double hottest = max_over_mean(load);
      CHECK(hottest == Approx(i % 5 >= 3 ? 9.0 * 8 / 16 : 1.0));  // share 9 / (9 + 7) of 8 experts
    }
    CHECK(t.counts(3, 0) == t.counts(4, 0));  // one burst
  }
  SECTION("walk: the further apart two iterations are, the more they differ") {
    const RoutingTrace t = make_routing_trace(
        {.routing = {}, .motion = RoutingMotion::Walk, .iterations = 101, .walk_sigma = 0.05}, 1, 64, 65536, 1, 8);
    const Load first = t.expert_load(0, 0);
    CHECK(max_over_mean(first) == 1);
    CHECK(drift(first, t.expert_load(1, 0)) > 0);
    CHECK(drift(first, t.expert_load(10, 0)) > drift(first, t.expert_load(1, 0)));
    CHECK(drift(first, t.expert_load(100, 0)) > drift(first, t.expert_load(10, 0)));
  }
}

TEST_CASE("Layers and sampled iterations draw on their own") {
  RoutingScenario routing = kHot;
  const RoutingTrace expected =
      make_routing_trace({.routing = routing, .iterations = 2, .layers = 3}, 2, 32, 320, 2, 2);
  CHECK(expected.expert_load(0, 0) != expected.expert_load(0, 1));
  routing.sampled = true;
  const TraceScenario scenario{.routing = routing, .iterations = 2, .layers = 3};
  const RoutingTrace sampled = make_routing_trace(scenario, 2, 32, 320, 2, 2);
  SECTION("sampled iterations differ, around the same popularities") {
    CHECK(sampled.counts(0, 0) != sampled.counts(1, 0));
    CHECK(drift(sampled.expert_load(0, 0), expected.expert_load(0, 0)) < 0.15);
  }
  SECTION("the same scenario gives the same trace") {
    CHECK(make_routing_trace(scenario, 2, 32, 320, 2, 2) == sampled);
  }
  SECTION("every source keeps its number of selections") {
    for (std::int32_t s = 0; s < 2; ++s) {
      std::int64_t sum = 0;
      for (const std::uint32_t c : sampled.row(1, 2, RankId(s))) sum += c;
      CHECK(sum == 640);
    }
  }
}

}  // namespace moeplan::tests::make_routing_trace_test
