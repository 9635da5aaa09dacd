#include "sim/flows/interacting_ranks.hpp"

#include <catch2/catch.hpp>

#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::interacting_ranks_test {

using namespace moeplan::sim;

namespace {

/// Eight ranks. Block 0: all-to-alls of neighbouring pairs; block 1: also of ranks 2 apart; block 2: all ranks.
Program program() {
  Program p = tests::one_block(8, {{"pairs", 2, 1}, {"two apart", 2, 2}, {"all", 8, 1}});
  p.blocks.resize(3);
  p.blocks[0].operations = {tests::collective_of(p, Collective::AllToAll, GroupId(0), 8)};
  p.blocks[1].operations = {tests::collective_of(p, Collective::AllToAll, GroupId(0), 8),
                            tests::collective_of(p, Collective::AllToAll, GroupId(1), 8)};
  p.blocks[2].operations = {tests::collective_of(p, Collective::AllGather, GroupId(2), 64)};
  return p;
}

Sequence of(std::int32_t block) { return {Step{.block = BlockId(block)}}; }

}  // namespace

TEST_CASE("ranks interact that communicate with each other, also through others") {
  const Program p = program();
  const Cluster cluster = tests::toy_cluster(1, 8);
  const NetworkView view(p, cluster, /*symmetry=*/nullptr);
  CHECK(interacting_ranks(p, of(0), view) == RankSets{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(interacting_ranks(p, of(1), view) == RankSets{0, 0, 0, 0, 1, 1, 1, 1});
  CHECK(interacting_ranks(p, of(2), view) == RankSets(8, 0));
  CHECK(interacting_ranks(p, {}, view) == RankSets{0, 1, 2, 3, 4, 5, 6, 7});
  SECTION("in nested repeats as well") {
    const Sequence nested{{.block = {}, .count = 3, .body = of(0)}, Step{.block = BlockId(1)}};
    CHECK(interacting_ranks(p, nested, view) == interacting_ranks(p, of(1), view));
  }
  SECTION("messages between stages outlast iterations") {
    Program with_messages = p;
    Operation send = tests::kernel_of(with_messages, 8, Stream::Pipeline);
    send.work = Send{.group = GroupId(0)};
    with_messages.blocks[0].operations.push_back(send);
    CHECK_FALSE(interacting_ranks(with_messages, of(0), view));
  }
}

TEST_CASE("a set of ranks has links of its own unless others communicate over them") {
  Program p = program();
  const RankSets pairs{0, 0, 1, 1, 2, 2, 3, 3};
  const auto own = [&](const Cluster& cluster, const RankSets& sets) {
    return own_resources(p, sets, NetworkView(p, cluster, /*symmetry=*/nullptr));
  };
  SECTION("each GPU has a link into the node's switch and one out of it") {
    for (const auto& resources : own(tests::toy_cluster(1, 8), pairs)) {
      REQUIRE(resources);
      CHECK(resources->size() == 2 * 2);
    }
  }
  SECTION("pairs that share the link of their nodes have none, because their traffic meets there") {
    const RankSets apart{0, 1, 0, 1, 2, 3, 2, 3};
    p.blocks.resize(2);
    p.blocks[0].operations.clear();
    p.blocks[1].operations.erase(p.blocks[1].operations.begin());
    for (const auto& resources : own(tests::toy_cluster(4, 2), apart)) CHECK_FALSE(resources);
    for (const auto& resources : own(tests::toy_cluster(1, 8), apart)) CHECK(resources);
  }
  SECTION("all ranks together have all links") {
    const Cluster cluster = tests::toy_cluster(2, 4);
    const auto all = own(cluster, RankSets(8, 0));
    REQUIRE(all.size() == 1);
    CHECK(all.front()->size() == cluster.topology.links.size());
  }
}

}  // namespace moeplan::tests::interacting_ranks_test
