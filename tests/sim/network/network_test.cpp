#include "sim/network/network.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "sim/network/fast_network.hpp"

namespace moeplan::tests::network_test {

using namespace moeplan::sim;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::unique_ptr<Network> make(const std::string& engine) {
  return engine == "plain" ? make_plain_network() : std::make_unique<FastNetwork>(true);
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
  const std::string engine = GENERATE("plain", "fast");
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
  SECTION("advance to the last bit before an end: expect the end, because callers round times to picoseconds") {
    const ResourceId link = n.add_resource(3);
    start(n, {link}, 1);
    std::vector<FlowId> done;
    n.advance(std::nextafter(*n.next_completion(), 0.0), done);
    CHECK(done == std::vector<FlowId>{FlowId(0)});
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

namespace {

/// A random system: everything follows from the seed.
struct Instance {
  struct Start {
    std::vector<FlowUse> uses;
    double bytes;
    double weight;
    double time;
  };
  struct Change {
    ResourceId resource;
    double capacity;
    double time;
  };
  std::vector<double> capacity;
  std::vector<Start> starts;    // by time
  std::vector<Change> changes;  // by time
};

/// `ties`: few sizes, capacities and times, so that much coincides; else all are different.
Instance random_instance(std::uint64_t seed, int resources, int flows, std::size_t longest, bool ties) {
  std::mt19937_64 bits(seed);
  const auto below = [&](std::size_t n) { return static_cast<int>(bits() % n); };
  const auto unit = [&] { return static_cast<double>(bits() >> 11) * 0x1p-53; };
  const std::vector<double> sizes{50e9, 25e9, 450e9, 100e9};
  Instance x;
  for (int l = 0; l < resources; ++l) {
    const double c = ties ? sizes[static_cast<std::size_t>(below(4))] : std::exp(20 + 6 * unit());
    x.capacity.push_back(below(12) == 0 ? kInfinity : c);
  }
  const std::size_t bursts = static_cast<std::size_t>(1 + below(6));
  for (int f = 0; f < flows; ++f) {
    Instance::Start s{{}, 0, 1, 0};
    const std::size_t uses = static_cast<std::size_t>(below(longest + 1));
    for (std::size_t u = 0; u < uses; ++u) {
      const double share = below(3) == 0 ? 1.0 / (1 + below(4)) : 1.0;
      s.uses.push_back({ResourceId(below(static_cast<std::size_t>(resources))), share});
    }
    s.bytes = ties ? 16384.0 * below(8) : 1e6 * unit();
    if (below(4) == 0) s.weight = ties ? 1 + below(5) : 10 * unit() + 1e-3;
    s.time = 1e-5 * static_cast<double>(below(bursts));
    if (below(8) == 0) s.time = 5e-5 * unit();
    x.starts.push_back(std::move(s));
  }
  std::stable_sort(x.starts.begin(), x.starts.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
  return x;
}

/// Adds random changes of finite capacities, by factors from 1/4 to 4.
void add_changes(Instance& x, std::uint64_t seed, int changes) {
  std::mt19937_64 bits(seed);
  const auto below = [&](std::size_t n) { return static_cast<int>(bits() % n); };
  for (int i = 0; i < changes; ++i) {
    const auto l = static_cast<std::size_t>(below(x.capacity.size()));
    if (x.capacity[l] == kInfinity) continue;
    x.changes.push_back({ResourceId(l), x.capacity[l] * std::exp2(below(5) - 2), 1e-5 * below(8)});
  }
  std::stable_sort(x.changes.begin(), x.changes.end(), [](const auto& a, const auto& b) { return a.time < b.time; });
}

struct Run {
  std::vector<double> end;      // by start
  std::vector<double> carried;  // by resource
};

Run run(Network& n, const Instance& x) {
  for (const double c : x.capacity) n.add_resource(c);
  Run r{std::vector<double>(x.starts.size(), -1), {}};
  std::size_t next = 0;
  std::size_t left = x.starts.size();
  std::vector<FlowId> done;
  auto change = x.changes.begin();
  while (left > 0) {
    auto t = n.next_completion();
    if (change != x.changes.end() && (!t || change->time < *t) &&
        (next == x.starts.size() || change->time <= x.starts[next].time)) {
      for (const double now = change->time; change != x.changes.end() && change->time == now; ++change) {
        n.set_capacity(change->resource, change->capacity, now);
      }
      continue;
    }
    if (next < x.starts.size() && (!t || x.starts[next].time < *t)) {
      const double now = x.starts[next].time;
      while (next < x.starts.size() && x.starts[next].time == now) {
        const auto& s = x.starts[next++];
        n.start(s.uses, s.bytes, s.weight, now);
      }
      continue;
    }
    REQUIRE(t);
    done.clear();
    n.advance(*t, done);
    REQUIRE_FALSE(done.empty());
    REQUIRE(std::is_sorted(done.begin(), done.end()));
    for (const FlowId f : done) {
      REQUIRE(r.end[f.index()] == -1);
      r.end[f.index()] = *t;
      --left;
    }
  }
  REQUIRE_FALSE(n.next_completion());
  for (std::size_t l = 0; l < x.capacity.size(); ++l) r.carried.push_back(n.bytes_carried(ResourceId(l)));
  return r;
}

/// A picosecond for every event on the way, or 1e-9.
double tolerance(double time, std::size_t events) { return std::max(1e-12 * static_cast<double>(events), 1e-9 * time); }

void expect_same(const Instance& x, const Run& a, const Run& b) {
  for (std::size_t f = 0; f < x.starts.size(); ++f) {
    CAPTURE(f, a.end[f], b.end[f]);
    REQUIRE(std::abs(a.end[f] - b.end[f]) <= tolerance(a.end[f], 1));
  }
}

void expect_all_bytes_carried(const Instance& x, const Run& r) {
  std::vector<double> sent(x.capacity.size(), 0);
  for (const auto& s : x.starts) {
    for (const FlowUse& use : s.uses) sent[use.resource.index()] += s.weight * use.share * s.bytes;
  }
  for (std::size_t l = 0; l < sent.size(); ++l) REQUIRE(r.carried[l] == Approx(sent[l]).epsilon(1e-9).margin(1e-6));
}

/// Requires that both engines agree and carry all bytes; how often the fast one gave up settling.
std::int64_t refilled_by_fast_engine(const Instance& x) {
  FastNetwork fast(true);
  const auto plain = make_plain_network();
  const Run got = run(fast, x);
  expect_same(x, run(*plain, x), got);
  expect_all_bytes_carried(x, got);
  return fast.counters().refilled;
}

std::uint64_t seed_of(const char* what) {
  std::uint64_t seed = *rc::gen::resize(1000, rc::gen::arbitrary<std::uint64_t>());
  seed = seed * 0x9e3779b97f4a7c15U + 1;
  UNSCOPED_INFO(what << " seed " << seed);
  return seed;
}

}  // namespace

TEST_CASE("The fast engine ends every flow when the plain engine does") {
  const bool ties = GENERATE(false, true);
  CAPTURE(ties);
  CHECK(rc::check("on random systems, keeping the definition after every event", [ties] {
    const int resources = *rc::gen::inRange(1, 14);
    const int flows = *rc::gen::inRange(0, 60);
    const auto longest = *rc::gen::inRange<std::size_t>(1, 9);
    const Instance x = random_instance(seed_of("instance"), resources, flows, longest, ties);
    RC_ASSERT(refilled_by_fast_engine(x) == 0);
  }));
}

TEST_CASE("Capacities change while flows run") {
  for (const std::string engine : {"plain", "fast"}) {
    CAPTURE(engine);
    const auto net = make(engine);
    Network& n = *net;
    const ResourceId link = n.add_resource(10), cap = n.add_resource(100);
    start(n, {link, cap}, 30);
    start(n, {link}, 100);
    std::vector<FlowId> done;
    n.advance(2, done);  // 10 bytes each
    n.set_capacity(cap, 2, 2);
    n.advance(7, done);  // 10 bytes more at 2 B/s; the other takes the rest
    CHECK(n.bytes_carried(cap) == Approx(20));
    CHECK(n.bytes_carried(link) == Approx(10 * 7));
    n.set_capacity(cap, 8, 7);
    n.set_capacity(cap, 4, 7);
    const auto ends = drain(n);
    REQUIRE(ends.size() == 2);
    CHECK(ends[0].time == Approx(7 + 10.0 / 4));
    CHECK(ends[1].time == Approx(13));
  }
  const bool ties = GENERATE(false, true);
  CAPTURE(ties);
  CHECK(rc::check("the fast engine ends every flow when the plain engine does", [ties] {
    const int resources = *rc::gen::inRange(1, 14);
    const int flows = *rc::gen::inRange(0, 60);
    const std::uint64_t seed = seed_of("instance");
    Instance x = random_instance(seed, resources, flows, 4, ties);
    add_changes(x, seed, *rc::gen::inRange(0, 30));
    RC_ASSERT(refilled_by_fast_engine(x) == 0);
  }));
}

TEST_CASE("Weights of very different size neither hang nor mislead the fast engine") {
  CHECK(rc::check("weights from 1e-6 to 1e6", [] {
    const std::uint64_t seed = seed_of("instance");
    Instance x = random_instance(seed, 8, 40, 5, false);
    std::mt19937_64 bits(seed);
    for (auto& s : x.starts) s.weight = std::pow(10.0, static_cast<double>(bits() % 13) - 6);
    FastNetwork fast;
    const auto plain = make_plain_network();
    const Run a = run(*plain, x);
    const Run b = run(fast, x);
    for (std::size_t f = 0; f < x.starts.size(); ++f) {
      // R is known to the last bit of the capacity, 1e12 times what the lightest class needs.
      REQUIRE(b.end[f] == Approx(a.end[f]).epsilon(1e-3));
    }
  }));
}

TEST_CASE("The fast engine agrees on larger systems too") {
  const bool ties = GENERATE(false, true);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    CAPTURE(ties, seed);
    const Instance x = random_instance(seed, 60, 400, 8, ties);
    CHECK(refilled_by_fast_engine(x) == 0);
  }
}

}  // namespace moeplan::tests::network_test
