#include "sim/traffic/block_routes.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::block_routes_test {

using namespace moeplan::sim;

namespace {

/// Switches joined by one-way links of these bandwidths.
Topology network(int vertices, const std::vector<std::tuple<int, int, double>>& links) {
  Topology t;
  for (int v = 0; v < vertices; ++v) t.vertices.push_back({std::to_string(v), VertexKind::NetworkSwitch, std::nullopt});
  for (const auto& [from, to, bandwidth] : links) {
    t.links.push_back({VertexId(from), VertexId(to), BytesPerSecond(bandwidth), Seconds(0), LinkTier::Core});
  }
  return t;
}

std::vector<FlowUse> route(const Topology& t, int from, int to) {
  std::vector<std::int32_t> vertices;
  for (std::size_t v = 0; v < t.vertices.size(); ++v) vertices.push_back(static_cast<std::int32_t>(v));
  std::vector<LinkId> links;
  for (std::size_t l = 0; l < t.links.size(); ++l) links.emplace_back(l);
  BlockRoutes routes(t);
  routes.begin(vertices, links);
  routes.find_from(from, std::vector<std::int32_t>{to});
  std::vector<FlowUse> uses;
  routes.append_route_to(to, uses);
  return uses;
}

std::string reason(const Topology& t, int from, int to) {
  try {
    (void)route(t, from, to);
  } catch (const NotFactored& n) {
    return n.reason;
  }
  return "";
}

}  // namespace

TEST_CASE("Inside a block a transfer is split over all paths of fewest hops") {
  SECTION("three paths of two hops, two of them over one vertex's parallel links: expect a third on each") {
    const auto uses = route(network(4, {{0, 1, 1}, {0, 2, 1}, {1, 3, 1}, {2, 3, 1}, {2, 3, 1}}), 0, 3);
    std::vector<double> share(5, 0);
    for (const FlowUse& use : uses) share[use.resource.index()] += use.share;
    CHECK(share[0] == Approx(1.0 / 3));
    CHECK(share[1] == Approx(2.0 / 3));
    for (const int l : {2, 3, 4}) CHECK(share[static_cast<std::size_t>(l)] == Approx(1.0 / 3));
  }
  SECTION("a longer way beside a short one is not taken") {
    const auto uses = route(network(3, {{0, 1, 1}, {1, 2, 1}, {0, 2, 1}}), 0, 2);
    REQUIRE(uses.size() == 1);
    CHECK(uses[0].resource == ResourceId(2));
    CHECK(uses[0].share == 1);
  }
  SECTION("not where paths differ in bandwidth, or where there is none") {
    CHECK(reason(network(4, {{0, 1, 1}, {0, 2, 2}, {1, 3, 2}, {2, 3, 2}}), 0, 3) ==
          "paths of equally many hops have different bandwidths");
    CHECK(reason(network(2, {{1, 0, 1}}), 0, 1) == "a path through the network has no reverse path");
  }
  SECTION("not where paths are too many to count") {
    // Pairs of switches, each joined to both of the next: 2^1099 paths.
    std::vector<std::tuple<int, int, double>> links{{0, 1, 1}, {0, 2, 1}};
    for (int i = 1; i < 2200; i += 2) {
      for (const int a : {i, i + 1}) {
        for (const int b : {i + 2, i + 3}) links.emplace_back(a, b, 1);
      }
    }
    CHECK(reason(network(2203, links), 0, 2201) == "2203 places of the network are joined by more than one path");
  }
}

}  // namespace moeplan::tests::block_routes_test
