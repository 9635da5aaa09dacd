#include "planner/placement/strategies/replay.hpp"

#include <catch2/catch.hpp>

#include "tests/support/placement_cases.hpp"
#include "tests/support/routing/make_routing_trace.hpp"

namespace moeplan::tests::replay_test {

using namespace moeplan::planner;

namespace {

const PlacementStrategy& strategy(std::string_view name) { return *find_placement_strategy(name); }

/// A hot set of one of 8 experts that moves one expert on every `period` iterations.
RoutingTrace rotating(std::int64_t iterations, std::int64_t period) {
  return make_routing_trace(
      {.routing = {.shape = RoutingShape::HotExpert, .hot_fraction = 0.125, .hot_factor = 9, .seed = 3},
       .motion = RoutingMotion::Rotating,
       .iterations = iterations,
       .layers = 2,
       .period = period},
      4, 8, 4000, 1, 2);
}

ReplayOptions options(std::int64_t interval = 1) {
  ReplayOptions o{.devices = tests::small_machine(4, 4), .interval = interval};
  o.options.trials = 300;
  return o;
}

}  // namespace

TEST_CASE("A replay plans from what was known before") {
  const RoutingTrace trace = rotating(13, 4);
  const ReplayTable table = replay(trace, strategy("pro_prophet"), options());
  REQUIRE(table.rows.size() == 13 * 2);
  SECTION("so the first iteration runs as none, and each change of the loads costs one iteration") {
    for (const ReplayRow& row : table.rows) {
      if (row.layer > 0) continue;
      CHECK(row.planned == (row.iteration > 0));
      if (row.iteration == 0) CHECK(row.time == row.time_before);
      const bool stale = row.iteration % 4 == 0;
      if (!stale) CHECK(row.time < row.time_before);
    }
    CHECK(table.plans == 12 * 2);
  }
  SECTION("with foresight no plan is stale") {
    ReplayOptions o = options();
    o.foresight = true;
    const ReplayTable ideal = replay(trace, strategy("pro_prophet"), o);
    for (const ReplayRow& row : ideal.rows) CHECK(row.time < row.time_before);
    CHECK(ideal.time < table.time);
  }
  SECTION("every q iterations") {
    const ReplayTable seldom = replay(trace, strategy("pro_prophet"), options(3));
    for (const ReplayRow& row : seldom.rows) CHECK(row.planned == (row.iteration > 0 && (row.iteration - 1) % 3 == 0));
    CHECK(seldom.plans == 4 * 2);
  }
  SECTION("or when the loads have drifted, because steady loads need no new plan") {
    ReplayOptions o = options();
    o.drift_trigger = 0.1;
    const ReplayTable drifted = replay(trace, strategy("pro_prophet"), o);
    // The first plan for iteration 1; the loads of 4, 8 and 12 are known from 5, 9 and 13 on.
    for (const ReplayRow& row : drifted.rows) CHECK(row.planned == (row.iteration > 0 && row.iteration % 4 == 1));
    CHECK(drifted.time == table.time);
  }
  SECTION("sums are those of the rows, and none costs nothing") {
    Seconds time{}, before{};
    for (const ReplayRow& row : table.rows) {
      time += row.time;
      before += row.time_before;
    }
    CHECK(table.time == time);
    CHECK(table.time_before == before);
    const ReplayTable none = replay(trace, strategy("contiguous"), options());
    CHECK(none.speedup() == Approx(1));
    CHECK(none.mean_rb == Approx(1));
    CHECK(none.migration == Seconds(0));
  }
  SECTION("a plan that takes longer than an exchange is paid for") {
    ReplayOptions o = options();
    o.plan_time = Seconds(1);
    CHECK(replay(trace, strategy("pro_prophet"), o).plan > Seconds(12 * 2 * 0.9));
    o.plan_time = Seconds(1e-9);
    CHECK(replay(trace, strategy("pro_prophet"), o).plan == Seconds(0));  // an exchange takes far longer
  }
}

TEST_CASE("Does a placement break even?") {
  const auto at = [](const RoutingTrace& trace, std::string_view name, PlacementDevices d) {
    ReplayOptions o = options();
    o.devices = d;
    return break_even(trace, 0, 0, 30, strategy(name), o);
  };
  const RoutingTrace trace = rotating(13, 4);
  PlacementDevices d = tests::small_machine(4, 4);
  SECTION("moving homes costs once and gains until the loads have drifted") {
    const BreakEven b = at(trace, "smartmoe", d);
    CHECK(b.cost == migration_time(contiguous_placement(8, 4),
                                   *strategy("smartmoe").place({.counts = trace.counts(0, 0), .devices = d}).placement,
                                   d));
    CHECK(b.memory == Bytes(0));
    if (b.lasts > 0) CHECK(*b.iterations == Approx(b.cost / b.gain));
  }
  SECTION("replicas cost memory, and in training no migration") {
    const BreakEven b = at(trace, "pro_prophet", d);
    CHECK(b.cost == Seconds(0));
    CHECK(b.memory.value() >= 2e6);
    CHECK(b.lasts >= 3);
    CHECK(b.breaks_even);
  }
  SECTION("no, where moving costs more than it gains until then") {
    PlacementDevices dear = d;
    dear.trains = false;
    dear.parameter_bytes = Bytes(1e15);
    const BreakEven b = at(trace, "eplb_distinct", dear);
    CHECK_FALSE(b.breaks_even);
    REQUIRE(b.iterations);
    CHECK(*b.iterations > static_cast<double>(b.lasts * 30));
  }
  SECTION("no, where nothing is gained at all") {
    const RoutingTrace even = make_routing_trace({.routing = {}, .iterations = 5}, 4, 8, 4000, 1, 2);
    const BreakEven b = at(even, "top2", d);
    CHECK(b.lasts == 0);
    CHECK_FALSE(b.iterations);
    CHECK_FALSE(b.breaks_even);
  }
}

TEST_CASE("How many redundant experts are worth it is a curve") {
  const RoutingTrace trace = rotating(3, 10);
  ReplayOptions o = options();
  o.devices = tests::loads_only(4, 2);
  o.devices.parameter_bytes = Bytes(1e6);
  o.interval = 1'000'000'000;  // so that moving replicas counts nothing
  const auto curve = redundancy_curve(trace, 1, 2, strategy("auto"), o);
  REQUIRE(curve.size() == 3);
  CHECK(curve[0].memory == Bytes(0));
  CHECK(curve[2].memory == Bytes(2e6));
  // 9 of 16 shares on one expert: without replicas its rank has at least 9 / 16 of all, with one slot more it is
  // divided.
  CHECK(curve[0].max_over_mean == Approx(10.0 / 16 * 4));
  CHECK(curve[1].max_over_mean < 0.6 * curve[0].max_over_mean);
  CHECK(curve[2].time <= curve[1].time * 1.01);
}

}  // namespace moeplan::tests::replay_test
