#include "model/machine/rank_routes.hpp"

#include <catch2/catch.hpp>

#include "tests/support/small_clusters.hpp"

namespace moeplan::tests::rank_routes_test {

TEST_CASE("Routes between ranks are computed once and equal those of the cluster") {
  const NodeLinks node = NvSwitch{BytesPerSecond(200e9), Seconds(0)};
  const Cluster cluster = build_cluster(spec_of(node, 2, 2, fabric_of(FabricKind::SingleSwitch, 2)), {});
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      if (from == to) continue;
      const Route& cached = cluster.cached_route(RankId(from), RankId(to));
      const Route route = cluster.route(RankId(from), RankId(to));
      CHECK(&cached == &cluster.cached_route(RankId(from), RankId(to)));
      CHECK(cached.latency == route.latency);
      REQUIRE(cached.links.size() == route.links.size());
      for (std::size_t l = 0; l < route.links.size(); ++l) CHECK(cached.links[l].link == route.links[l].link);
    }
  }
}

}  // namespace moeplan::tests::rank_routes_test
