#include "model/machine/automorphism.hpp"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

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
      const Link& image = links[images->of(LinkId(l)).index()];
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

TEST_CASE("Images of links are those given, however they run") {
  CHECK(rc::check([] {
    std::vector<std::int32_t> given;
    const auto lengths = *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(1, 5));
    for (const std::size_t length : lengths) {
      const auto first = *rc::gen::inRange<std::int32_t>(-1, 6);
      for (std::size_t i = 0; i < length; ++i) given.push_back(first < 0 ? -1 : first + static_cast<std::int32_t>(i));
    }
    const LinkImages images(given);
    std::vector<std::int32_t> visited(given.size(), -1);
    images.for_each([&](LinkId link, LinkId image) { visited[link.index()] = image.value(); });
    RC_ASSERT(visited == given);
    for (std::size_t l = 0; l < given.size(); ++l) RC_ASSERT(images.of(LinkId(l)) == LinkId(given[l]));
  }));
}

}  // namespace moeplan::tests::automorphism_test
