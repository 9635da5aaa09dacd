#include "sim/network.hpp"

#include <catch2/catch.hpp>
#include <limits>

using namespace moeplan;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::unique_ptr<Network> make(const std::string& engine) {
  REQUIRE(engine == "plain");
  return make_plain_network();
}

struct End {
  double time;
  FlowId flow;
};

/// Runs until nothing is left.
std::vector<End> drain(Network& network) {
  std::vector<End> ends;
  while (const auto t = network.next_completion()) {
    std::vector<FlowId> done;
    network.advance(*t, done);
    REQUIRE_FALSE(done.empty());
    for (const FlowId f : done) ends.push_back({*t, f});
  }
  return ends;
}

FlowId start(Network& n, const std::vector<ResourceId>& route, double bytes, double now = 0, double weight = 1) {
  std::vector<FlowUse> uses;
  for (const ResourceId l : route) uses.push_back({l, 1});
  return n.start(uses, bytes, weight, now);
}

}  // namespace

TEST_CASE("Flows end when max-min rates have carried their bytes") {
  const std::string engine = GENERATE("plain");
  CAPTURE(engine);
  const auto net = make(engine);
  Network& n = *net;

  SECTION("100 bytes alone on 10 B/s: expect 10 s, because the link is its own") {
    const ResourceId link = n.add_resource(10);
    start(n, {link}, 100);
    const auto ends = drain(n);
    REQUIRE(ends.size() == 1);
    CHECK(ends[0].time == Approx(100.0 / 10).epsilon(1e-15));
    CHECK(n.bytes_carried(link) == Approx(100));
  }
  SECTION("10 and 30 bytes share 10 B/s: expect 2 s and 4 s, because the second doubles its rate after the first") {
    const ResourceId link = n.add_resource(10);
    start(n, {link}, 10);
    start(n, {link}, 30);
    const auto ends = drain(n);
    REQUIRE(ends.size() == 2);
    CHECK(ends[0].time == Approx(10.0 / 5));
    CHECK(ends[1].time == Approx((10.0 + 30.0) / 10));
  }
  SECTION("A second flow joins at 1 s: expect 5 s and 6 s, because 10 bytes have gone by then and both run at 5 B/s") {
    const ResourceId link = n.add_resource(10);
    start(n, {link}, 30);
    std::vector<FlowId> done;
    n.advance(1, done);
    CHECK(done.empty());
    CHECK(n.bytes_carried(link) == Approx(10));
    start(n, {link}, 30, 1);
    const auto ends = drain(n);
    REQUIRE(ends.size() == 2);
    CHECK(ends[0].time == Approx(1 + 20.0 / 5));
    CHECK(ends[1].time == Approx((30.0 + 30.0) / 10));
  }
  SECTION("Incast: expect a cold flow to speed up, because max-min gives it what the hot link leaves") {
    const ResourceId out = n.add_resource(10);
    const ResourceId hot = n.add_resource(4);
    const ResourceId other = n.add_resource(10);
    start(n, {out, hot}, 20);
    start(n, {other, hot}, 20);
    start(n, {out}, 80);
    const auto ends = drain(n);
    REQUIRE(ends.size() == 3);
    CHECK(ends[0].time == Approx(20.0 / 2));
    CHECK(ends[0].flow == FlowId(0));
    CHECK(ends[1].flow == FlowId(1));
    CHECK(ends[2].time == Approx(80.0 / (10 - 2)));
    CHECK(ends[0].time == ends[2].time);
  }
  SECTION("A class of weight 4: expect 8 s for 20 bytes each on 10 B/s, and 80 bytes carried") {
    const ResourceId link = n.add_resource(10);
    start(n, {link}, 20, 0, 4);
    const auto ends = drain(n);
    REQUIRE(ends.size() == 1);
    CHECK(ends[0].time == Approx(4 * 20.0 / 10));
    CHECK(n.bytes_carried(link) == Approx(4 * 20.0));
  }
  SECTION("Half the flow on each of two paths: expect twice the rate of one path") {
    const ResourceId a = n.add_resource(10);
    const ResourceId b = n.add_resource(10);
    n.start(std::vector<FlowUse>{{a, 0.5}, {b, 0.5}}, 100, 1, 0);
    const auto ends = drain(n);
    REQUIRE(ends.size() == 1);
    CHECK(ends[0].time == Approx(100.0 / 20));
    CHECK(n.bytes_carried(a) == Approx(50));
  }
  SECTION("No uses, no bytes or only infinite resources: expect the start itself, because nothing holds them back") {
    const ResourceId free = n.add_resource(kInfinity);
    const ResourceId link = n.add_resource(10);
    start(n, {}, 5, 2);
    start(n, {link}, 0, 2);
    start(n, {free}, 5, 2);
    start(n, {link}, 10, 2);
    const auto ends = drain(n);
    REQUIRE(ends.size() == 4);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(ends[i].time == 2);
      CHECK(ends[i].flow == FlowId(i));
    }
    CHECK(ends[3].time == Approx(2 + 10.0 / 10));
    CHECK(n.bytes_carried(free) == Approx(5));
  }
  SECTION("A resource added while flows run takes part: expect the new flow behind its cap of 2 B/s") {
    const ResourceId link = n.add_resource(10);
    start(n, {link}, 40);
    std::vector<FlowId> done;
    n.advance(1, done);
    const ResourceId cap = n.add_resource(2);
    start(n, {link, cap}, 4, 1);
    const auto ends = drain(n);
    REQUIRE(ends.size() == 2);
    CHECK(ends[0].time == Approx(1 + 4.0 / 2));
    CHECK(ends[1].time == Approx((40.0 + 4.0) / 10));
  }
  SECTION("advance over several ends: expect all of them by time, then by FlowId") {
    const ResourceId a = n.add_resource(10);
    const ResourceId b = n.add_resource(10);
    start(n, {a}, 20);
    start(n, {b}, 10);
    start(n, {a}, 20);
    std::vector<FlowId> done;
    n.advance(100, done);
    CHECK(done == std::vector<FlowId>{FlowId(1), FlowId(0), FlowId(2)});
    CHECK_FALSE(n.next_completion());
  }
}
