#include "model/costs/stage_clusters.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "tests/support/small_clusters.hpp"

namespace moeplan::tests::stage_clusters_test {

TEST_CASE("Stages are equivalent that are a whole number of nodes apart") {
  const NodeLinks node = NvSwitch{BytesPerSecond(200e9), Seconds(0)};
  const Cluster cluster = build_cluster(spec_of(node, 8, 3, fabric_of(FabricKind::SingleSwitch, 3)), {});
  StageClusters stages(cluster);
  SECTION("all, because each begins at the first rank of a node") {
    CHECK(stages.period(4) == 1);
    CHECK(stages.are_equivalent(4));
  }
  SECTION("every third, because three stages of four ranks are four nodes of three") {
    CHECK(stages.period(6) == 3);
    CHECK_FALSE(stages.are_equivalent(6));
  }
  SECTION("none, because the last of seven nodes is not full") {
    const Cluster seven = build_cluster(spec_of(node, 7, 3, fabric_of(FabricKind::SingleSwitch, 3)), 20);
    CHECK(StageClusters(seven).period(5) == 5);
  }
}

TEST_CASE("Transfers that rotations turn into each other are priced once, at the same cost as each alone") {
  const NodeLinks node = NvSwitch{BytesPerSecond(200e9), Seconds(5e-7)};
  // Of 8 nodes a leaf joins 1, 2 or 4, oversubscribed by 2; nodes of 3 or 4 ranks.
  const auto [kind, per_node, per_leaf] = GENERATE(table<FabricKind, int, int>({{FabricKind::SingleSwitch, 4, 1},
                                                                                {FabricKind::SingleSwitch, 3, 1},
                                                                                {FabricKind::RailOptimised, 4, 1},
                                                                                {FabricKind::RailOptimised, 4, 2},
                                                                                {FabricKind::RailOptimised, 3, 4},
                                                                                {FabricKind::RailOnly, 4, 2},
                                                                                {FabricKind::DualPlane, 4, 4}}));
  const ClusterSpec spec = spec_of(node, 8, per_node, fabric_of(kind, per_node, 2, per_leaf));
  const Cluster cluster = build_cluster(spec, {});
  Cluster plain = build_cluster(spec, {});
  plain.natural_boundaries.clear();  // then no symmetry is searched for
  for (const std::int64_t stages : {2, 3, 4, 6, 8, 12, 16}) {
    if (cluster.world_size() % stages != 0) continue;
    StageClusters turned(cluster), each(plain);
    for (std::int64_t from = 0; from < stages; ++from) {
      for (std::int64_t to = 0; to < stages; ++to) {
        CAPTURE(per_node, per_leaf, stages, from, to);
        CHECK(turned.transfer(stages, from, to) == each.transfer(stages, from, to));
      }
    }
  }
}

TEST_CASE("Stages are computed on the first one whose ranks are connected alike") {
  const NodeLinks node = NvSwitch{BytesPerSecond(200e9), Seconds(0)};
  const Cluster cluster =
      build_cluster(spec_of(node, 5, 4, fabric_of(FabricKind::RailOptimised, 4, 1, /*nodes_per_leaf=*/1)), 18);
  const auto first_equivalents = [](StageClusters& stages, std::int64_t count) {
    std::vector<std::int64_t> out;
    for (std::int64_t s = 0; s < count; ++s) out.push_back(stages.equivalent(count, s).stage);
    return out;
  };
  StageClusters stages(cluster);
  SECTION("halves of nodes, although no shift of ranks maps the cluster onto itself") {
    REQUIRE(stages.period(9) == 9);
    CHECK(first_equivalents(stages, 9) == std::vector<std::int64_t>(9, 0));
  }
  SECTION("stages of three ranks by where they are divided: 3, 1 + 2, 2 + 1, 3, 3, 1 + 2") {
    CHECK(first_equivalents(stages, 6) == std::vector<std::int64_t>{0, 1, 2, 0, 0, 1});
  }
  SECTION("the links of the one lead where those of the other do") {
    const StageClusters::Equivalent& last = stages.equivalent(6, 5);
    const Cluster &a = stages.of(6, last.stage).cluster, &b = stages.of(6, 5).cluster;
    for (std::int32_t from = 0; from < 3; ++from) {
      for (std::int32_t to = 0; to < 3; ++to) {
        if (from == to) continue;
        const Route of_a = a.route(RankId(from), RankId(to)), of_b = b.route(RankId(from), RankId(to));
        REQUIRE(of_a.links.size() == of_b.links.size());
        for (std::size_t i = 0; i < of_a.links.size(); ++i)
          CHECK(last.links[of_a.links[i].link.index()] == of_b.links[i].link);
      }
    }
  }
  SECTION("not where a link is slower") {
    Cluster slower = build_cluster(spec_of(node, 5, 4, fabric_of(FabricKind::RailOptimised, 4, 1, 1)), 18);
    slower.topology.links[slower.route(RankId(16), RankId(17)).links.front().link.index()].bandwidth =
        BytesPerSecond(100e9);
    StageClusters with_slower(slower);
    CHECK(first_equivalents(with_slower, 9) == std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 0, 0, 8});
  }
}

}  // namespace moeplan::tests::stage_clusters_test
