#include "sim/network/fast_network.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

namespace moeplan::tests::fast_network_test {

using namespace moeplan::sim;

namespace {

/// An all-to-all between NICs of 50 GB/s each way, in two-link flows; bytes(s, d) = 0 is no flow.
struct AllToAll {
  int ranks;
  std::vector<double> bytes;  // by source, then destination

  template <class Bytes>
  AllToAll(int n, Bytes&& size) : ranks(n) {
    for (int s = 0; s < n; ++s) {
      for (int d = 0; d < n; ++d) bytes.push_back(s == d ? 0.0 : size(s, d));
    }
  }

  /// Ends by pair; `order` is the order of starting the pairs.
  std::vector<double> ends(Network& n, const std::vector<std::size_t>& order) const {
    for (int l = 0; l < 2 * ranks; ++l) n.add_resource(50e9);
    std::vector<std::size_t> pair_of_flow;
    for (const std::size_t pair : order) {
      if (bytes[pair] == 0) continue;
      const auto width = static_cast<std::size_t>(ranks);
      const FlowUse uses[] = {{ResourceId(pair / width), 1}, {ResourceId(width + pair % width), 1}};
      n.start(uses, bytes[pair], 1, 0);
      pair_of_flow.push_back(pair);
    }
    std::vector<double> end(bytes.size(), 0);
    std::vector<FlowId> done;
    while (const auto t = n.next_completion()) {
      done.clear();
      n.advance(*t, done);
      for (const FlowId f : done) end[pair_of_flow[f.index()]] = *t;
    }
    return end;
  }
  std::vector<double> ends(Network& n) const {
    std::vector<std::size_t> order(bytes.size());
    std::iota(order.begin(), order.end(), 0);
    return ends(n, order);
  }
};

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double relative) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(a[i] - b[i]) <= relative * std::max(a[i], b[i])) continue;
    CAPTURE(i, a[i], b[i]);
    FAIL("a flow ends at another time");
  }
}

}  // namespace

TEST_CASE("Massive ties cost one event, not one solution each") {
  SECTION("uniform: every level ties with every other, and all flows end at (n - 1) bytes / 50 GB/s") {
    const int n = 300;
    FastNetwork network;
    const std::vector<double> ends = AllToAll(n, [](int, int) { return 1e6; }).ends(network);
    CHECK(*std::max_element(ends.begin(), ends.end()) == Approx((n - 1) * 1e6 / 50e9).epsilon(1e-12));
    CHECK(network.counters().events == 1);
    CHECK(network.counters().resolved <= 2 * n);
    CHECK(network.counters().moved == 0);
  }
  SECTION("uniform columns: an event for each column, a few settlements for each link and event") {
    const int n = 200;
    FastNetwork network;
    const AllToAll traffic(n, [](int, int d) { return 1e6 + 1e3 * d; });
    const std::vector<double> ends = traffic.ends(network);
    for (std::size_t pair = 0; pair < ends.size(); ++pair) {
      if (traffic.bytes[pair] == 0) continue;
      // Each column's NIC is shared by n - 1 flows of its size, and no source is ever the narrower end.
      REQUIRE(ends[pair] == Approx(traffic.bytes[pair] * (n - 1) / 50e9).epsilon(1e-12));
    }
    CHECK(network.counters().events == n);
    CHECK(network.counters().resolved + network.counters().corrected <= 40 * n);
    CHECK(network.counters().refilled == 0);
  }
  SECTION("columns of two sizes, a quarter of the flows left out: ties that come and go") {
    FastNetwork network(true);
    const auto plain = make_plain_network();
    const AllToAll traffic(24, [](int s, int d) { return (s + 3 * d) % 4 == 0 ? 0.0 : (d % 2 == 0 ? 3e6 : 1e6); });
    expect_near(traffic.ends(network), traffic.ends(*plain), 1e-11);
    CHECK(network.counters().refilled == 0);
  }
}

TEST_CASE("Sizes that are all different agree with the plain engine flow by flow") {
  std::mt19937_64 bits(7);
  const AllToAll traffic(24, [&](int, int d) {
    const double jitter = 1 + 0.1 * static_cast<double>(bits() >> 11) * 0x1p-53;
    return 1e7 / (1 + d) * jitter;
  });
  FastNetwork network(true);
  const auto plain = make_plain_network();
  expect_near(traffic.ends(network), traffic.ends(*plain), 1e-11);
  CHECK(network.counters().events == 24 * 23);
}

TEST_CASE("The order of starting at one instant does not matter") {
  std::mt19937_64 bits(11);
  const AllToAll traffic(32, [&](int, int d) { return 16384.0 * static_cast<double>(bits() % (d < 5 ? 40 : 4)); });
  std::vector<std::size_t> order(traffic.bytes.size());
  std::iota(order.begin(), order.end(), 0);
  FastNetwork in_order;
  const std::vector<double> expected = traffic.ends(in_order, order);
  for (int i = 0; i < 4; ++i) {
    std::shuffle(order.begin(), order.end(), bits);
    FastNetwork shuffled;
    expect_near(traffic.ends(shuffled, order), expected, 1e-11);
  }
}

TEST_CASE("Flows that come one after another are placed without solving everything") {
  // A new flow each microsecond between random ends of 400 NICs; each lasts about a millisecond, so about 1,000 run.
  std::mt19937_64 bits(13);
  FastNetwork network;
  for (int l = 0; l < 400; ++l) network.add_resource(50e9);
  std::map<FlowId, double> started;
  std::vector<FlowId> done;
  std::size_t ended = 0;
  for (int f = 0; f < 20'000; ++f) {
    const double now = 1e-6 * f;
    network.advance(now, done);
    const FlowUse uses[] = {{ResourceId(static_cast<int>(bits() % 200)), 1},
                            {ResourceId(static_cast<int>(200 + bits() % 200)), 1}};
    network.start(uses, 1e6 + 1e3 * static_cast<double>(bits() % 1000), 1, now);
  }
  network.advance(1, done);
  ended = done.size();
  CHECK(ended == 20'000);
  CHECK(network.counters().filled <= 400);
  CHECK(network.counters().refilled == 0);
}

TEST_CASE("Disjoint components do not disturb each other") {
  FastNetwork network;
  for (int l = 0; l < 2000; ++l) network.add_resource(1e9);
  for (int l = 0; l < 2000; ++l) {
    for (int f = 0; f < 4; ++f) network.start(std::vector<FlowUse>{{ResourceId(l), 1}}, 1e6 * (f + 1) + l, 1, 0);
  }
  std::vector<FlowId> done;
  network.advance(1, done);
  CHECK(done.size() == 8000);
  // Each end settles its own link only; the rest is what filling marked.
  CHECK(network.counters().settled <= 2000 + 8000);
}

TEST_CASE("A link ends many flows by size, though only the next few stand in its heap") {
  // n flows of k MB each, k = 1 ... n, share 1 GB/s: until the k-th ends, each longer one has sent k MB too.
  const int n = 1000;
  FastNetwork network(true);
  const ResourceId link = network.add_resource(1e9);
  for (int f = 0; f < n; ++f) network.start(std::vector<FlowUse>{{link, 1}}, 1e6 * ((f * 7) % n + 1), 1, 0);
  std::vector<double> end(static_cast<std::size_t>(n) + 1);
  std::vector<FlowId> done;
  while (const auto t = network.next_completion()) {
    done.clear();
    network.advance(*t, done);
    for (const FlowId f : done) end[f.index() * 7 % static_cast<std::size_t>(n) + 1] = *t;
  }
  for (int k = 1; k <= n; ++k) {
    const double megabytes = 0.5 * k * (k + 1) + static_cast<double>(n - k) * k;
    REQUIRE(end[static_cast<std::size_t>(k)] == Approx(1e-3 * megabytes).epsilon(1e-12));
  }
}

}  // namespace moeplan::tests::fast_network_test
