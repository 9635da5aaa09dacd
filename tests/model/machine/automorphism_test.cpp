#include "model/machine/automorphism.hpp"

#include <catch2/catch.hpp>

#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::automorphism_test {

TEST_CASE("A permutation of GPUs is extended to the links where the machine allows") {
  const Cluster cluster = tests::toy_cluster(2, 2);
  const Automorphisms machine(cluster.topology);
  const auto& links = cluster.topology.links;
  SECTION("nodes change places: expect each link on one between the images of its ends") {
    const std::vector<std::int32_t> turned{2, 3, 0, 1};
    const auto images = machine.links(cluster.gpu_of_rank, turned);
    REQUIRE(images);
    for (std::size_t l = 0; l < links.size(); ++l) {
      const Link& image = links[static_cast<std::size_t>((*images)[l])];
      CHECK(image.bandwidth == links[l].bandwidth);
      for (std::size_t r = 0; r < 4; ++r) {
        const VertexId to = cluster.gpu_of_rank[static_cast<std::size_t>(turned[r])];
        if (links[l].from == cluster.gpu_of_rank[r]) CHECK(image.from == to);
        if (links[l].to == cluster.gpu_of_rank[r]) CHECK(image.to == to);
      }
    }
  }
  SECTION("GPUs of different nodes change places: expect none, because their switches would have to stay and go") {
    CHECK_FALSE(machine.links(cluster.gpu_of_rank, {2, 1, 0, 3}));
  }
  SECTION("a link of another bandwidth: expect none") {
    Topology uneven = cluster.topology;
    uneven.links.back().bandwidth = BytesPerSecond(1);
    CHECK_FALSE(Automorphisms(uneven).links(cluster.gpu_of_rank, {2, 3, 0, 1}));
  }
}

}  // namespace moeplan::tests::automorphism_test
