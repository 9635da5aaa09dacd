#include "sim/traffic/route_rows.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <tuple>

#include "tests/support/spec_files.hpp"
#include "tests/support/toy_cluster.hpp"
#include "tests/support/traffic_network.hpp"

namespace moeplan::tests::route_rows_test {

using namespace moeplan::sim;

namespace {

using Uses = std::vector<std::pair<std::int32_t, double>>;  // resource, share

Uses route(const TrafficNetwork& network, std::int32_t s, std::int32_t d) {
  std::vector<FlowUse> uses;
  network.route(RankId(s), RankId(d), uses);
  Uses out;
  for (const FlowUse& u : uses) out.emplace_back(u.resource.value(), u.share);
  return out;
}

/// Every route is the cluster's, in order and share, but for links that a link which is not left out stands for: all
/// routes over the former cross the latter, with the same share, and its capacity is no larger.
void expect_same_routes(const Cluster& cluster, RouteRows& rows, bool by_source) {
  const TrafficNetwork expected = traffic_network(cluster), got = rows.network();
  CHECK(got.capacity == expected.capacity);
  std::set<std::int32_t> is_used;
  std::map<std::int32_t, std::set<std::int32_t>> stand_in;  // of each link left out: what may stand for it
  std::int64_t different = 0;
  for (std::int32_t outer = 0; outer < cluster.world_size(); ++outer) {
    for (std::int32_t inner = 0; inner < cluster.world_size(); ++inner) {
      const std::int32_t s = by_source ? outer : inner, d = by_source ? inner : outer;
      if (s == d) continue;
      const Uses all = route(expected, s, d), few = route(got, s, d);
      std::size_t next = 0;
      for (const auto& [l, share] : all) {
        if (next < few.size() && few[next] == std::pair(l, share)) {
          is_used.insert(l);
          ++next;
          continue;
        }
        std::set<std::int32_t> here;
        for (const auto& [m, other_share] : few) {
          const auto room = [&](std::int32_t x) { return expected.capacity[static_cast<std::size_t>(x)]; };
          if (other_share == share && room(m) <= room(l) && (!stand_in.contains(l) || stand_in[l].contains(m))) {
            here.insert(m);
          }
        }
        if (here.empty()) ++different;
        stand_in[l] = here;
      }
      if (next != few.size()) ++different;
    }
  }
  for (const auto& [l, links] : stand_in) different += is_used.contains(l) ? 1 : 0;
  CHECK(different == 0);
}

void expect_same_routes(const Cluster& cluster) {
  RouteRows rows(cluster);
  expect_same_routes(cluster, rows, true);
}

}  // namespace

TEST_CASE("Rows of routes are the cluster's routes without links that a narrower one in series stands for") {
  SECTION("a small tree") { expect_same_routes(tests::toy_cluster(3, 4)); }
  SECTION("no memory for rows: they are searched for again, then the cluster is asked, and routes are the same") {
    const Cluster cluster = tests::toy_cluster(3, 4);
    for (const bool by_source : {true, false}) {
      RouteRows rows(cluster, 0);
      expect_same_routes(cluster, rows, by_source);
    }
  }
  SECTION("every machine of configs/clusters: trees, meshes, rails, several NICs a GPU") {
    for (const auto& path : tests::files_in("clusters")) {
      CAPTURE(path.string());
      expect_same_routes(build_cluster(tests::load_cluster(path), std::nullopt));
    }
  }
}

}  // namespace moeplan::tests::route_rows_test
