#include "model/machine/topology.hpp"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <map>

#include "model/machine/routes_of_gpu.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::topology_test {

namespace {

constexpr VertexKind kGpu = VertexKind::Gpu, kSwitch = VertexKind::NetworkSwitch;

struct Cable {
  int from, to;
  double bandwidth;
};

/// Directed links with a latency of 1 us each.
Topology graph(const std::vector<VertexKind>& kinds, const std::vector<Cable>& links) {
  Topology t;
  for (const VertexKind kind : kinds) t.vertices.push_back({"v" + std::to_string(t.vertices.size()), kind, 0});
  for (const Cable& c : links) {
    t.links.push_back({VertexId(c.from), VertexId(c.to), BytesPerSecond(c.bandwidth), Seconds(1e-6), LinkTier::Core});
  }
  return t;
}

std::map<int, double> shares(const Topology& t, int from, int to) {
  std::map<int, double> out;
  for (const RouteLink& l : Routes(t).between(VertexId(from), VertexId(to)).links) out[l.link.value()] += l.share;
  return out;
}

using Shares = std::map<int, double>;

}  // namespace

TEST_CASE("a route has the fewest hops") {
  SECTION("a direct link wins over a wider way round a switch because it is one hop") {
    const Topology t = graph({kGpu, kGpu, kSwitch}, {{0, 2, 100}, {2, 1, 100}, {0, 1, 1}});
    CHECK(shares(t, 0, 1) == Shares{{2, 1.0}});
  }
  SECTION("GPUs do not forward, so two links through a GPU are no route") {
    const Topology t = graph({kGpu, kGpu, kGpu}, {{0, 1, 1}, {1, 2, 1}});
    CHECK(shares(t, 0, 1).size() == 1);
    CHECK(shares(t, 0, 2).empty());
  }
  SECTION("a longer way round is taken where the shorter one crosses a GPU") {
    const Topology t =
        graph({kGpu, kGpu, kGpu, kSwitch, kSwitch}, {{0, 1, 1}, {1, 2, 1}, {0, 3, 1}, {3, 4, 1}, {4, 2, 1}});
    CHECK(shares(t, 0, 2) == Shares{{2, 1.0}, {3, 1.0}, {4, 1.0}});
    CHECK(Routes(t).between(VertexId(0), VertexId(2)).latency.value() == Approx(3e-6));
  }
  SECTION("links are directed, so there may be a way there and none back") {
    const Topology t = graph({kGpu, kGpu}, {{0, 1, 1}});
    CHECK(shares(t, 1, 0).empty());
  }
}

TEST_CASE("among the fewest hops the widest bottleneck wins, and ties split equally") {
  SECTION("two equal spines carry half each") {
    const Topology t = graph({kGpu, kGpu, kSwitch, kSwitch}, {{0, 2, 5}, {0, 3, 5}, {2, 1, 5}, {3, 1, 5}});
    CHECK(shares(t, 0, 1) == Shares{{0, 0.5}, {1, 0.5}, {2, 0.5}, {3, 0.5}});
  }
  SECTION("the wider spine carries all") {
    const Topology t = graph({kGpu, kGpu, kSwitch, kSwitch}, {{0, 2, 5}, {0, 3, 9}, {2, 1, 9}, {3, 1, 6}});
    CHECK(shares(t, 0, 1) == Shares{{1, 1.0}, {3, 1.0}});
  }
  SECTION("a split follows paths, not next hops: 2 paths over one switch, 1 over the other, so 2/3 and 1/3") {
    const Topology t = graph({kGpu, kGpu, kSwitch, kSwitch, kSwitch, kSwitch},
                             {{0, 2, 1}, {0, 3, 1}, {2, 4, 1}, {2, 5, 1}, {3, 5, 1}, {4, 1, 1}, {5, 1, 1}});
    const Shares got = shares(t, 0, 1);
    for (const auto& [link, share] :
         Shares{{0, 2.0 / 3}, {1, 1.0 / 3}, {2, 1.0 / 3}, {3, 1.0 / 3}, {4, 1.0 / 3}, {5, 1.0 / 3}, {6, 2.0 / 3}}) {
      CHECK(got.at(link) == Approx(share));
    }
  }
  SECTION("a first hop wider than the bottleneck does not break the tie, because only the bottleneck counts") {
    const Topology t =
        graph({kGpu, kGpu, kSwitch, kSwitch, kSwitch}, {{0, 2, 9}, {0, 3, 5}, {2, 4, 9}, {3, 4, 9}, {4, 1, 5}});
    CHECK(shares(t, 0, 1) == Shares{{0, 0.5}, {1, 0.5}, {2, 0.5}, {3, 0.5}, {4, 1.0}});
  }
  SECTION("parallel links are paths of their own") {
    const Topology t = graph({kGpu, kGpu}, {{0, 1, 5}, {0, 1, 5}});
    CHECK(shares(t, 0, 1) == Shares{{0, 0.5}, {1, 0.5}});
  }
  SECTION("2^3000 paths are split without overflow") {
    std::vector<VertexKind> kinds{kGpu, kGpu};
    std::vector<Cable> links{{0, 2, 1}};
    for (int i = 0; i < 3000; ++i) {
      kinds.push_back(kSwitch);
      links.push_back({i + 2, i == 2999 ? 1 : i + 3, 1});
      links.push_back({i + 2, i == 2999 ? 1 : i + 3, 1});
    }
    const Shares got = shares(graph(kinds, links), 0, 1);
    CHECK(got.size() == links.size());
    CHECK(got.at(1) == 0.5);
    CHECK(got.at(6000) == 0.5);
  }
}

TEST_CASE("the shares of a route are a unit flow, equal over the widest of the fewest-hop paths") {
  CHECK(rc::check("conservation at every vertex", [] {
    const int vertices = *rc::gen::inRange(2, 14);
    std::vector<VertexKind> kinds{kGpu, kGpu};
    for (int i = 2; i < vertices; ++i) kinds.push_back(*rc::gen::inRange(0, 4) == 0 ? kGpu : kSwitch);
    std::vector<Cable> links;
    const int count = *rc::gen::inRange(1, 40);
    for (int i = 0; i < count; ++i) {
      const int from = *rc::gen::inRange(0, vertices), to = *rc::gen::inRange(0, vertices);
      if (from != to) links.push_back({from, to, static_cast<double>(*rc::gen::inRange(1, 4))});
    }
    const Topology t = graph(kinds, links);
    const Routes routes(t);
    const Route route = routes.between(VertexId(0), VertexId(1));
    using Direction = RoutesOfGpu::Direction;
    for (const Route& same : {RoutesOfGpu(t, routes, VertexId(0), Direction::From).with(VertexId(1)),
                              RoutesOfGpu(t, routes, VertexId(1), Direction::To).with(VertexId(0))}) {
      RC_ASSERT(std::ranges::equal(same.links, route.links, [](const RouteLink& a, const RouteLink& b) {
        return a.link == b.link && a.share == b.share;
      }));
      RC_ASSERT(same.latency == route.latency);
    }

    // Fewest hops by relaxing all links until nothing changes.
    std::vector<int> hops(kinds.size(), 1000);
    hops[0] = 0;
    for (int round = 0; round < vertices; ++round) {
      for (const Cable& c : links) {
        const auto from = static_cast<std::size_t>(c.from), to = static_cast<std::size_t>(c.to);
        if (from == 0 || kinds[from] != kGpu) hops[to] = std::min(hops[to], hops[from] + 1);
      }
    }
    RC_ASSERT(route.links.empty() == (hops[1] >= 1000));
    if (route.links.empty()) return;

    // All fewest-hop paths by trying every link; the widest of them share the transfer equally.
    std::vector<std::vector<std::size_t>> paths;
    std::vector<std::size_t> path;
    const std::function<void(std::size_t)> extend = [&](std::size_t vertex) {
      if (vertex == 1) paths.push_back(path);
      if (vertex == 1 || (vertex != 0 && kinds[vertex] == kGpu)) return;
      for (std::size_t i = 0; i < t.links.size(); ++i) {
        const std::size_t next = t.links[i].to.index();
        if (t.links[i].from.index() != vertex || hops[next] != hops[vertex] + 1) continue;
        path.push_back(i);
        extend(next);
        path.pop_back();
      }
    };
    extend(0);
    const auto width = [&](const std::vector<std::size_t>& p) {
      double w = 1e9;
      for (const std::size_t i : p) w = std::min(w, t.links[i].bandwidth.value());
      return w;
    };
    double widest = 0;
    for (const auto& p : paths) widest = std::max(widest, width(p));
    std::map<std::size_t, double> expected;
    const auto ties = std::count_if(paths.begin(), paths.end(), [&](const auto& p) { return width(p) == widest; });
    for (const auto& p : paths) {
      for (const std::size_t i : p) {
        if (width(p) == widest) expected[i] += 1 / static_cast<double>(ties);
      }
    }
    RC_ASSERT(expected.size() == route.links.size());
    for (const RouteLink& l : route.links) RC_ASSERT(std::abs(expected.at(l.link.index()) - l.share) < 1e-12);

    std::vector<double> net(kinds.size(), 0);
    double hop_sum = 0;
    for (const RouteLink& l : route.links) {
      RC_ASSERT(l.share > 0);
      RC_ASSERT(l.share <= 1 + 1e-12);
      const Link& link = t.links[l.link.index()];
      RC_ASSERT(hops[link.to.index()] == hops[link.from.index()] + 1);
      net[link.from.index()] -= l.share;
      net[link.to.index()] += l.share;
      hop_sum += l.share;
    }
    RC_ASSERT(std::abs(net[0] + 1) < 1e-9);
    RC_ASSERT(std::abs(net[1] - 1) < 1e-9);
    for (std::size_t v = 2; v < net.size(); ++v) RC_ASSERT(std::abs(net[v]) < 1e-9);
    RC_ASSERT(std::abs(hop_sum - hops[1]) < 1e-9);
    RC_ASSERT(std::abs(route.latency.value() - hops[1] * 1e-6) < 1e-12);
  }));
}

TEST_CASE("GPUs that cannot reach one another are found") {
  const auto pair = [](const Topology& t, const std::vector<VertexId>& gpus) { return unconnected_pair(t, gpus); };
  const std::vector<VertexId> three{VertexId(0), VertexId(1), VertexId(2)};
  SECTION("none where one switch joins all") {
    CHECK(!pair(graph({kGpu, kGpu, kGpu, kSwitch}, {{0, 3, 1}, {1, 3, 1}, {2, 3, 1}, {3, 0, 1}, {3, 1, 1}, {3, 2, 1}}),
                three));
  }
  SECTION("none in a full mesh without switches") {
    CHECK(!pair(graph({kGpu, kGpu, kGpu}, {{0, 1, 1}, {0, 2, 1}, {1, 0, 1}, {1, 2, 1}, {2, 0, 1}, {2, 1, 1}}), three));
  }
  SECTION("the ends of a chain of GPUs, because GPUs do not forward") {
    const auto got = pair(graph({kGpu, kGpu, kGpu}, {{0, 1, 1}, {1, 0, 1}, {1, 2, 1}, {2, 1, 1}}), three);
    REQUIRE(got);
    CHECK(*got == std::pair(VertexId(0), VertexId(2)));
  }
  SECTION("one whose link back is missing") {
    const auto got =
        pair(graph({kGpu, kGpu, kGpu, kSwitch}, {{0, 3, 1}, {1, 3, 1}, {3, 0, 1}, {3, 1, 1}, {3, 2, 1}}), three);
    REQUIRE(got);
    CHECK(*got == std::pair(VertexId(2), VertexId(0)));
  }
  SECTION("GPUs that the job does not use need no route") {
    CHECK(!pair(graph({kGpu, kGpu, kGpu}, {{0, 1, 1}, {1, 0, 1}}), {VertexId(0), VertexId(1)}));
  }
}

TEST_CASE("routes over links of equal orbits are of one kind") {
  const auto over = [](std::vector<RouteLink> links, double latency) {
    return Route{std::move(links), Seconds(latency)};
  };
  const std::vector<std::int32_t> orbit{0, 0, 1, 1, 2};
  const LinkId a(0), b(1), c(2), d(3), e(4);
  const std::vector<std::vector<Route>> routes{
      {{}, over({{a, 1}, {c, 1}}, 1), over({{b, 1}, {d, 1}}, 1), over({{c, 1}, {a, 1}}, 1)},
      {over({{b, 1}, {c, 1}}, 1), {}, over({{b, 1}, {c, 1}}, 2), over({{a, 1}, {c, 0.5}, {d, 0.5}}, 1)},
      {over({{a, 1}, {c, 0.5}, {e, 0.5}}, 1), over({{a, 1}, {d, 0.5}, {c, 0.5}}, 1), {}, over({{a, 1}, {d, 1}}, 2)}};
  const DistinctRoutes distinct = distinct_routes(orbit, routes);
  const std::vector<std::vector<std::int32_t>> expected{{-1, 0, 0, 1}, {0, -1, 2, 3}, {4, 3, -1, 2}};
  CHECK(distinct.number == expected);
  const std::vector<const Route*> first{&routes[0][1], &routes[0][3], &routes[1][2], &routes[1][3], &routes[2][0]};
  CHECK(distinct.routes == first);
}

}  // namespace moeplan::tests::topology_test
