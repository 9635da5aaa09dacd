#include "sim/traffic/route_blocks.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "tests/support/small_clusters.hpp"

namespace moeplan::tests::route_blocks_test {

using namespace moeplan::sim;

namespace {

using Index = RouteBlocks::Index;
using Shares = std::map<Index, double>;  // by link

void add(Shares& shares, std::span<const FlowUse> uses) {
  for (const FlowUse& use : uses) shares[use.resource.value()] += use.share;
}

/// The route through the fabric, put together from blocks.
Shares through_blocks(const RouteBlocks& f, VertexId from, VertexId to) {
  const auto at = [](Index i) { return static_cast<std::size_t>(i); };
  const auto depth = [&](Index v) {
    int d = 0;
    for (; f.block_of[at(v)] >= 0; ++d) {
      v = f.blocks[at(f.block_of[at(v)])].top;
      if (v < 0) return d + 1;
    }
    return d;
  };
  Shares shares;
  Index s = from.value(), d = to.value();
  while (s != d) {
    const Index bs = f.block_of[at(s)], bd = f.block_of[at(d)];
    if (bs == bd) {
      add(shares, f.route(f.blocks[at(bs)], at(f.place_of[at(s)]), at(f.place_of[at(d)])));
      return shares;
    }
    if (depth(s) >= depth(d)) {
      add(shares, f.route(f.blocks[at(bs)], at(f.place_of[at(s)]), 0));
      s = f.blocks[at(bs)].top;
    } else {
      add(shares, f.route(f.blocks[at(bd)], 0, at(f.place_of[at(d)])));
      d = f.blocks[at(bd)].top;
    }
  }
  return shares;
}

bool are_equal(const Shares& a, const Shares& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && std::abs(x.second - y.second) < 1e-12;
  });
}

}  // namespace

TEST_CASE("Routes put together from blocks are the cluster's") {
  rc::prop("on any cluster that can be factored", [] {
    const Cluster cluster = random_cluster();
    const auto factored = route_blocks(cluster);
    RC_CLASSIFY(std::holds_alternative<std::string>(factored), "not factored");
    if (std::holds_alternative<std::string>(factored)) return;
    const auto& f = std::get<RouteBlocks>(factored);
    std::map<std::pair<RankId, RankId>, Shares> near;
    for (const auto& n : f.near.flows) add(near[{n.src, n.dst}], f.uses_of(n));
    for (std::int64_t s = 0; s < cluster.world_size(); ++s) {
      for (std::int64_t d = 0; d < cluster.world_size(); ++d) {
        if (s == d) continue;
        const RankId src(static_cast<std::int32_t>(s)), dst(static_cast<std::int32_t>(d));
        const VertexId from = cluster.gpu_of_rank[src.index()], to = cluster.gpu_of_rank[dst.index()];
        Shares expected;
        for (const RouteLink& l : cluster.routes.between(from, to).links) expected[l.link.value()] += l.share;
        const auto it = near.find({src, dst});
        RC_ASSERT(are_equal(it != near.end() ? it->second : through_blocks(f, from, to), expected));
      }
    }
  });
}

TEST_CASE("A cluster is cut into blocks") {
  const NvSwitch nvswitch{BytesPerSecond(450e9), Seconds(0)};
  SECTION("one switch: expect it as the root, because each subtree is then one rank; pairs inside nodes are near") {
    const Cluster c = build_cluster(spec_of(nvswitch, 3, 4, fabric_of(FabricKind::SingleSwitch, 4)), {});
    const auto f = std::get<RouteBlocks>(route_blocks(c));
    CHECK(f.blocks.size() == 2 * 12);  // a cable to the switch and one to the NIC for each rank
    CHECK(f.near.flows.size() == 3 * 4 * 3);
    CHECK(c.topology.vertices[static_cast<std::size_t>(f.blocks.front().top)].name == "core");
    CHECK(f.blocks.front().ranks == 1);
  }
  SECTION("dragonfly: expect the block of all groups as the root, because no single switch parts them") {
    const Cluster c = build_cluster(spec_of(nvswitch, 8, 2, fabric_of(FabricKind::Dragonfly, 2, 1, 2)), {});
    const auto f = std::get<RouteBlocks>(route_blocks(c));
    CHECK(f.blocks.front().top == -1);
    CHECK(f.blocks.front().terminals == 4);
    CHECK(f.blocks.front().ranks == 16);
  }
  SECTION("not where two networks join all ranks over equally many hops, because transfers are split between them") {
    Cluster c = build_cluster(spec_of(nvswitch, 1, 2, std::nullopt), {});
    Topology t = c.topology;
    t.vertices.push_back({"second", VertexKind::NvSwitch, 0});
    const VertexId second(t.vertices.size() - 1);
    for (const VertexId g : c.gpu_of_rank) {
      t.links.push_back({g, second, BytesPerSecond(450e9), Seconds(0), LinkTier::IntraNode});
      t.links.push_back({second, g, BytesPerSecond(450e9), Seconds(0), LinkTier::IntraNode});
    }
    ClusterSpec spec = spec_of(nvswitch, 1, 2, std::nullopt);
    spec.machine = t;
    CHECK(std::get<std::string>(route_blocks(build_cluster(spec, {}))) == "a route is split between two networks");
  }
  SECTION("not where no switch joins all ranks") {
    const NvlinkMesh mesh{.links = {{0, 1, BytesPerSecond(1e9)}},
                          .latency = Seconds(0),
                          .pcie = {.gpus_per_switch = 0,
                                   .switches_per_bridge = 2,
                                   .pcie_bandwidth = BytesPerSecond(1e9),
                                   .inter_bridge_bandwidth = BytesPerSecond(1e9),
                                   .latency = Seconds(0)}};
    Topology t = build_cluster(spec_of(mesh, 1, 2, std::nullopt), {}).topology;
    std::erase_if(t.links, [&](const Link& l) {
      return t.vertices[l.from.index()].kind != VertexKind::Gpu || t.vertices[l.to.index()].kind != VertexKind::Gpu;
    });
    ClusterSpec spec = spec_of(mesh, 1, 2, std::nullopt);
    spec.machine = t;
    CHECK(std::get<std::string>(route_blocks(build_cluster(spec, {}))) == "no network of switches joins all GPUs");
  }
}

}  // namespace moeplan::tests::route_blocks_test
