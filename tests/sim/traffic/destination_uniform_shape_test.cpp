#include "sim/traffic/destination_uniform_shape.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/small_clusters.hpp"

namespace moeplan::tests::destination_uniform_shape_test {

using namespace moeplan::sim;

namespace {

DestinationUniformShape shape_of(const Cluster& cluster) {
  return DestinationUniformShape(cluster, std::get<RouteBlocks>(route_blocks(cluster)));
}

}  // namespace

TEST_CASE("Links that only flows to one subtree cross are kept, those on ways up are not") {
  const NvSwitch nvswitch{BytesPerSecond(450e9), Seconds(0)};
  SECTION("rails: expect the way down from the spine kept, and a leaf's GPUs as a subtree") {
    const Cluster c = build_cluster(spec_of(nvswitch, 4, 2, fabric_of(FabricKind::RailOptimised, 2, 1, 2)), {});
    const DestinationUniformShape shape = shape_of(c);
    CHECK(shape.subtrees.size() == 2 * 2);
    for (const auto& subtree : shape.subtrees) CHECK(subtree.size() == 2);
    for (std::size_t l = 0; l < c.topology.links.size(); ++l) {
      const auto& from = c.topology.vertices[c.topology.links[l].from.index()];
      const auto& to = c.topology.vertices[c.topology.links[l].to.index()];
      CAPTURE(from.name, to.name);
      if (from.name == "spine") CHECK(shape.kept[l]);
      if (to.name == "spine") CHECK_FALSE(shape.kept[l]);
      if (from.kind == VertexKind::Gpu && to.kind == VertexKind::Nic) CHECK_FALSE(shape.kept[l]);
      if (from.kind == VertexKind::Nic && to.kind == VertexKind::Gpu) CHECK(shape.kept[l]);
    }
    SECTION("ranks of a node are near; they would have met at the spine, because their rails differ") {
      REQUIRE(shape.near_of(RankId(0)).size() == 1);
      const auto& near = shape.near_of(RankId(0))[0];
      CHECK(near.src == RankId(1));
      // GPU, NIC, leaf: up to the spine.
      CHECK(shape.steps_of(near).size() == 3);
      CHECK(shape.factors.blocks[static_cast<std::size_t>(near.sum)].ranks == 2);  // down to a leaf
    }
  }
  SECTION("dragonfly of five equal groups: expect one crossing to stand for four") {
    const Cluster c = build_cluster(spec_of(nvswitch, 10, 2, fabric_of(FabricKind::Dragonfly, 2, 1, 2)), {});
    const DestinationUniformShape shape = shape_of(c);
    CHECK(shape.subtrees.size() == 5);
    CHECK(std::count(shape.members.begin(), shape.members.end(), 4) == 5);
  }
}

}  // namespace moeplan::tests::destination_uniform_shape_test
