#include "model/costs/stage_clusters.hpp"

#include <catch2/catch.hpp>

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

}  // namespace moeplan::tests::stage_clusters_test
