#include "sim/route_rows.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <tuple>

#include "tests/toy_cluster.hpp"

using namespace moeplan;

namespace {

void expect_same_routes(const Cluster& cluster) {
  RouteRows rows(cluster);
  const TrafficNetwork expected = traffic_network(cluster), got = rows.network();
  CHECK(got.capacity == expected.capacity);
  const auto route = [](const TrafficNetwork& network, std::int32_t s, std::int32_t d) {
    std::vector<FlowUse> uses;
    network.route(RankId(s), RankId(d), uses);
    std::vector<std::pair<std::int32_t, double>> out;
    for (const FlowUse& u : uses) out.emplace_back(u.resource.value(), u.share);
    return out;
  };
  std::int64_t different = 0;
  for (std::int32_t s = 0; s < cluster.world_size(); ++s) {
    for (std::int32_t d = 0; d < cluster.world_size(); ++d) {
      if (s != d && route(expected, s, d) != route(got, s, d)) ++different;
    }
  }
  CHECK(different == 0);
}

}  // namespace

TEST_CASE("rows of routes are the cluster's routes, link by link and share by share") {
  SECTION("a small tree") { expect_same_routes(test::toy_cluster(3, 4)); }
  SECTION("every machine of configs/clusters: trees, meshes, rails, several NICs a GPU") {
    const std::filesystem::path configs = std::filesystem::path(MOEPLAN_SOURCE_DIR) / "configs";
    for (const auto& entry : std::filesystem::directory_iterator(configs / "clusters")) {
      CAPTURE(entry.path().string());
      Node document = load_document(entry.path());
      embed_gpu(document, {configs / "gpus"});
      expect_same_routes(build_cluster(read_cluster(document), std::nullopt));
    }
  }
}
