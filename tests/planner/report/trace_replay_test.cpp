#include "planner/report/trace_replay.hpp"

#include <catch2/catch.hpp>

#include "tests/support/checks.hpp"
#include "tests/support/routing/make_routing_trace.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::trace_replay_test {

using namespace moeplan::planner;

namespace {

/// 4 sources of 2,000 tokens that select two of 4 experts, of which the first is hot.
RoutingTrace trace() {
  return make_routing_trace(
      {.routing = {.shape = RoutingShape::HotExpert, .hot_fraction = 0.25, .hot_factor = 9, .seed = 3},
       .iterations = 3,
       .layers = 2},
      4, 4, 2000, 2, 2);
}

SmallCase four_experts() {
  SmallCase c;
  c.experts = 4;
  c.top_k = 2;
  return c;
}

}  // namespace

TEST_CASE("A trace's devices are the ranks of the cluster with a layer of the model") {
  const Small s = small(four_experts());
  const RoutingTrace t = trace();
  const PlacementDevices d = trace_devices(s.model, s.workload, s.cluster, t, 1, "t.csv");
  CHECK(d.ranks == 4);
  CHECK(d.slots == 2);  // one of four experts on each of four ranks, and one more
  CHECK(d.token_bytes.value() == static_cast<double>(s.model.hidden_size * size_of(s.workload.dtype)));
  CHECK(d.parameter_bytes.value() > 0);
}

TEST_CASE("Strategies are replayed in the order that they are named in", "[slow]") {
  const Small s = small(four_experts());
  const RoutingTrace t = trace();
  const ReplayOptions options{.devices = trace_devices(s.model, s.workload, s.cluster, t, 3, "t.csv")};
  const std::vector<std::string> names{"contiguous", "top2", "auto"};
  const std::vector<StrategyReplay> replayed = replays(t, names, options);
  REQUIRE(replayed.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(replayed[i].strategy == names[i]);
    CHECK_FALSE(replayed[i].infeasibility);
    CHECK(replayed[i].table.rows.size() == 3 * 2);
  }
  CHECK(replayed[0].table.time == replayed[0].table.time_before);
  CHECK(replayed[2].table.time <= replayed[0].table.time);
}

TEST_CASE("A trace of other experts than the model's is refused, with what would do") {
  const Small s = small({});
  const std::string error =
      tests::error_of([&] { (void)trace_devices(s.model, s.workload, s.cluster, trace(), 0, "t.csv"); });
  CHECK(error.find("t.csv: is of 4 experts, ") == 0);
  CHECK(error.find("num_experts=4") != std::string::npos);
}

}  // namespace moeplan::tests::trace_replay_test
