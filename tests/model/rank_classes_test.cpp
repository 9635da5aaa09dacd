#include "model/program/rank_classes.hpp"

#include <catch2/catch.hpp>

#include "model/program/rank_program.hpp"
#include "tests/model/programs.hpp"
#include "tests/model/spec_files.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

using Members = std::vector<std::vector<int>>;

Members members(const std::vector<RankClass>& classes) {
  Members out;
  for (const RankClass& c : classes) {
    CHECK(c.representative == c.members.front());
    std::vector<int>& ids = out.emplace_back();
    for (const RankId r : c.members) ids.push_back(r.value());
  }
  return out;
}

std::vector<int> range(int first, int last, int stride = 1) {
  std::vector<int> out;
  for (int r = first; r < last; r += stride) out.push_back(r);
  return out;
}

/// Nodes like a DGX: 8 GPUs on an NVSwitch, a NIC each, rails.
Cluster dgx(std::int64_t world) {
  const std::string text = cluster_text(R"(template:
  nodes: 2
  gpus_per_node: 8
  intra_node: {kind: nvswitch, bandwidth: 450 GB/s, latency: 0.5 us}
  fabric: {kind: rail_optimised, nics_per_node: 8, nic_bandwidth: 400 Gbps, latency: 1 us, oversubscription: 1, nodes_per_leaf: 32})");
  return build_cluster(read_cluster(parse_yaml(text, "t.yaml")), world);
}

/// Makes the links into and out of the first NIC of a rank slower.
void slow_nic(Cluster& cluster, RankId rank) {
  Topology& t = cluster.topology;
  for (const Link& link : t.links) {
    if (link.from != cluster.gpu_of_rank[rank.index()] || t.vertices[link.to.index()].kind == VertexKind::NvSwitch)
      continue;
    const VertexId nic = link.to;
    for (Link& l : t.links) {
      if (l.from == nic || l.to == nic) l.bandwidth *= 0.5;
    }
    break;
  }
  cluster.routes = Routes(t);
}

/// Expert e gets 8 + e rows from every source.
RoutingCounts skewed(std::int64_t sources, std::int64_t experts) {
  std::vector<std::int64_t> row;
  for (std::int64_t e = 0; e < experts; ++e) row.push_back(8 + e);
  return RoutingCounts::by_expert(sources, row);
}

}  // namespace

TEST_CASE("equal work at equal places of the cluster is one class") {
  SECTION("one node: all 8 ranks") {
    CHECK(members(rank_classes(moe_program(8, 8, RoutingCounts::uniform(8, 16, 32)), dgx(8))) == Members{range(0, 8)});
  }
  SECTION("four nodes, experts over a node: all 32 ranks") {
    CHECK(members(rank_classes(moe_program(32, 8, RoutingCounts::uniform(32, 16, 32)), dgx(32))) ==
          Members{range(0, 32)});
  }
  SECTION("four nodes, experts over all ranks: all 32, because rails and spine look the same from each") {
    CHECK(members(rank_classes(moe_program(32, 32, RoutingCounts::uniform(32, 64, 4)), dgx(32))) ==
          Members{range(0, 32)});
  }
}

TEST_CASE("ranks whose data differ are apart") {
  SECTION("experts of different load: a class for each position, because only equal positions hold equal experts") {
    Members expected;
    for (int p = 0; p < 8; ++p) expected.push_back(range(p, 16, 8));
    CHECK(members(rank_classes(moe_program(16, 8, skewed(16, 8)), dgx(16))) == expected);
  }
  SECTION("10 experts on 8 ranks: two ranks hold one more") {
    CHECK(members(rank_classes(moe_program(8, 8, RoutingCounts::uniform(8, 10, 32)), dgx(8))) ==
          Members{range(0, 2), range(2, 8)});
  }
  SECTION("one source that sends more: it is apart, its peers are alike") {
    std::vector<std::int64_t> counts(8 * 8, 16);
    for (std::size_t e = 0; e < 8; ++e) counts[3 * 8 + e] = 20;
    CHECK(members(rank_classes(moe_program(8, 8, RoutingCounts::dense(8, 8, counts)), dgx(8))) ==
          Members{{0, 1, 2, 4, 5, 6, 7}, {3}});
  }
  SECTION("equal sums are not enough: what goes to which peer must be a relabelling") {
    // All rows and all columns sum to 16, but ranks 2 and 3 send 6 rows to each other where 0 and 1 send 4.
    const std::vector<std::int64_t> counts{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2, 6, 4, 4, 6, 2};
    CHECK(members(rank_classes(moe_program(4, 4, RoutingCounts::dense(4, 4, counts)), dgx(4))) ==
          Members{{0, 1}, {2, 3}});
  }
}

TEST_CASE("ranks at different places of the cluster are apart") {
  Cluster cluster = dgx(16);
  slow_nic(cluster, RankId(3));
  SECTION("all to all over two nodes: the slow rank, its rail peer, the rest of its node, the rest of the other") {
    CHECK(members(rank_classes(moe_program(16, 16, RoutingCounts::uniform(16, 16, 32)), cluster)) ==
          Members{{0, 1, 2, 4, 5, 6, 7}, {3}, {8, 9, 10, 12, 13, 14, 15}, {11}});
  }
  SECTION("traffic that stays in the node does not see it") {
    Program p = moe_program(16, 8, RoutingCounts::uniform(16, 16, 32));
    p.stages.front().pop_back();
    CHECK(members(rank_classes(p, cluster)) == Members{range(0, 16)});
  }
  SECTION("12 ranks on one and a half nodes: only 4 of the first have a peer on their rail, so three classes") {
    const auto classes = members(rank_classes(moe_program(12, 12, RoutingCounts::uniform(12, 12, 32)), dgx(12)));
    CHECK(classes == Members{range(0, 4), range(4, 8), range(8, 12)});
  }
}

TEST_CASE("what is too large to examine is not called equal") {
  // 1024 ranks, all to all: 1024 x 1023 possible transfers.
  static_assert(1024 * 1023 > kMostTransfers);
  const Cluster cluster = dgx(1024);
  CHECK(rank_classes(moe_program(1024, 1024, RoutingCounts::uniform(1024, 1024, 1)), cluster).size() == 1024);
}

TEST_CASE("members of a class run the same program with their peers relabelled") {
  const Program p = moe_program(16, 8, skewed(16, 8));
  const auto without_peers = [&](RankId r) {
    RankProgram program = for_rank(p, r);
    program.rank = RankId(0);
    for (auto& block : program.blocks) {
      for (RankOperation& op : block) {
        for (PeerBytes& s : op.sends) s.peer = RankId(0);
        for (PeerBytes& s : op.receives) s.peer = RankId(0);
        const auto less = [](const PeerBytes& a, const PeerBytes& b) { return a.bytes < b.bytes; };
        std::sort(op.sends.begin(), op.sends.end(), less);
        std::sort(op.receives.begin(), op.receives.end(), less);
      }
    }
    return program;
  };
  for (const RankClass& c : rank_classes(p, dgx(16))) {
    for (const RankId r : c.members) CHECK(without_peers(r) == without_peers(c.representative));
  }
}
