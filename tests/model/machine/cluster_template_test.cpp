#include "model/machine/cluster_template.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "model/machine/cluster.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::cluster_template_test {

using tests::cluster_from;

namespace {

const std::string kRails =
    "{kind: rail_optimised, nics_per_node: 8, nic_bandwidth: 50 GB/s, latency: 1 us, oversubscription: 2, "
    "nodes_per_leaf: 2}";
const std::string kDragonfly =
    "{kind: dragonfly, nics_per_node: 8, nic_bandwidth: 50 GB/s, latency: 1 us, oversubscription: 2, nodes_per_leaf: "
    "2}";

/// The names of the vertices that the route between two ranks crosses, with the shares of the links that lead to them.
std::map<std::string, double> crossed(const Cluster& c, std::size_t from, std::size_t to) {
  std::map<std::string, double> out;
  for (const RouteLink& l : c.routes.between(c.gpu_of_rank[from], c.gpu_of_rank[to]).links) {
    out[c.topology.vertices[c.topology.links[l.link.index()].to.index()].name] += l.share;
  }
  return out;
}

using Crossed = std::map<std::string, double>;

double bandwidth_between(const Topology& t, const std::string& from, const std::string& to) {
  for (const Link& l : t.links) {
    if (t.vertices[l.from.index()].name == from && t.vertices[l.to.index()].name == to) return l.bandwidth.value();
  }
  return 0;
}

}  // namespace

TEST_CASE("NVSwitch nodes on one switch") {
  const Cluster c = build_cluster(cluster_from(nv_template(kSingleSwitch)), std::nullopt);
  SECTION("ranks go node by node") {
    REQUIRE(c.world_size() == 32);
    CHECK(c.node_of_rank[7] == 0);
    CHECK(c.node_of_rank[8] == 1);
    CHECK(c.topology.vertices[c.gpu_of_rank[9].index()].name == "node1.gpu1");
  }
  SECTION("inside a node traffic takes the NVSwitch") {
    CHECK(crossed(c, 0, 7) == Crossed{{"node0.nvswitch", 1}, {"node0.gpu7", 1}});
  }
  SECTION("between nodes it takes the GPUs' own NICs and has the latency of two hops of the fabric") {
    CHECK(crossed(c, 0, 9) == Crossed{{"node0.nic0", 1}, {"core", 1}, {"node1.nic1", 1}, {"node1.gpu1", 1}});
    CHECK(c.routes.between(c.gpu_of_rank[0], c.gpu_of_rank[9]).latency.value() == Approx(2e-6));
  }
  SECTION("a world of fewer GPUs is the first ones, in whole nodes") {
    const Cluster small = build_cluster(cluster_from(nv_template(kSingleSwitch)), 12);
    CHECK(small.world_size() == 12);
    CHECK(std::count_if(small.topology.vertices.begin(), small.topology.vertices.end(),
                        [](const Vertex& v) { return v.kind == VertexKind::Gpu; }) == 16);
  }
}

TEST_CASE("NICs are shared out over the GPUs of an NVSwitch node") {
  const auto with_nics = [](const std::string& nics) {
    return build_cluster(cluster_from(nv_template("{kind: single_switch, nics_per_node: " + nics +
                                                  ", nic_bandwidth: 500 GB/s, latency: 1 us}")),
                         std::nullopt);
  };
  SECTION("two NICs serve four GPUs each, and GPUs of one NIC still talk over the NVSwitch although the NIC is wider") {
    const Cluster c = with_nics("2");
    CHECK(crossed(c, 3, 12).contains("node0.nic0"));
    CHECK(crossed(c, 4, 12).contains("node0.nic1"));
    CHECK(crossed(c, 12, 4).contains("node0.nic1"));
    CHECK(crossed(c, 0, 1) == Crossed{{"node0.nvswitch", 1}, {"node0.gpu1", 1}});
  }
  SECTION("sixteen NICs give each GPU two, which carry half each") {
    const Crossed names = crossed(with_nics("16"), 1, 8);
    CHECK(names.at("node0.nic2") == 0.5);
    CHECK(names.at("node0.nic3") == 0.5);
    CHECK(names.at("core") == 1.0);
    CHECK(names.at("node1.nic0") == 0.5);
  }
}

TEST_CASE("a rail-optimised fabric keeps a rail's traffic on its leaf") {
  const Cluster c = build_cluster(cluster_from(nv_template(kRails)), std::nullopt);
  CHECK(crossed(c, 1, 9) == Crossed{{"node0.nic1", 1}, {"leaf0.rail1", 1}, {"node1.nic1", 1}, {"node1.gpu1", 1}});
  SECTION("other rails and other leaf groups are reached over the spine") {
    CHECK(crossed(c, 1, 10) == Crossed{{"node0.nic1", 1},
                                       {"leaf0.rail1", 1},
                                       {"spine", 1},
                                       {"leaf0.rail2", 1},
                                       {"node1.nic2", 1},
                                       {"node1.gpu2", 1}});
    CHECK(crossed(c, 1, 17).contains("spine"));
  }
  SECTION("a leaf of 2 nodes has 2 * 50 GB/s down and half of that up because the oversubscription is 2") {
    CHECK(bandwidth_between(c.topology, "leaf0.rail1", "spine") == 2 * 50e9 / 2);
  }
}

TEST_CASE("rails alone: GPUs relay to other rails inside the source's node, as no switch joins the rails") {
  const auto with_nics = [](const std::string& nics, const std::string& nodes_per_leaf) {
    return build_cluster(
        cluster_from(nv_template(
            "{kind: rail_only, nics_per_node: " + nics +
            ", nic_bandwidth: 50 GB/s, latency: 1 us, oversubscription: 2, nodes_per_leaf: " + nodes_per_leaf + "}")),
        std::nullopt);
  };
  const Cluster c = with_nics("8", "2");
  SECTION("a rail's traffic stays on its leaf, or crosses its own spine") {
    CHECK(crossed(c, 1, 9) == Crossed{{"node0.nic1", 1}, {"leaf0.rail1", 1}, {"node1.nic1", 1}, {"node1.gpu1", 1}});
    CHECK(crossed(c, 1, 17).contains("spine.rail1"));
    CHECK(bandwidth_between(c.topology, "leaf0.rail1", "spine.rail1") == 2 * 50e9 / 2);
  }
  SECTION("to GPU 2 of another node it takes GPU 2's NVLinks and NIC in its own") {
    CHECK(crossed(c, 1, 10) == Crossed{{"node0.nvswitch", 1},
                                       {"node0.nvlink2", 1},
                                       {"node0.nic2", 1},
                                       {"leaf0.rail2", 1},
                                       {"node1.nic2", 1},
                                       {"node1.gpu2", 1}});
    // two hops to the relaying GPU, and NIC to leaf to NIC
    CHECK(c.route(RankId(1), RankId(10)).latency.value() == Approx(2 * 0.5e-6 + 2 * 1e-6));
    CHECK(bandwidth_between(c.topology, "node0.nvswitch", "node0.nvlink2") == 450e9);
  }
  SECTION("inside a node NVLinks have the latency that they have on any fabric") {
    const Cluster rails = build_cluster(cluster_from(nv_template(kRails)), std::nullopt);
    CHECK(crossed(c, 0, 7) == Crossed{{"node0.nvswitch", 1}, {"node0.nvlink7", 1}, {"node0.gpu7", 1}});
    CHECK(c.route(RankId(0), RankId(7)).latency == rails.route(RankId(0), RankId(7)).latency);
  }
  SECTION("with a NIC for two GPUs both of these relay; GPUs of one rail do not need them") {
    const Cluster shared = with_nics("4", "4");
    const Crossed other = crossed(shared, 1, 10);
    CHECK(other.at("node0.nvlink2") == 0.5);
    CHECK(other.at("node0.nvlink3") == 0.5);
    CHECK(other.at("node0.nic1") == 1);
    CHECK_FALSE(crossed(shared, 1, 8).contains("node0.nvswitch"));
  }
  SECTION("nodes without NVSwitch reach other rails' NICs through their host bridges") {
    const Cluster pcie = build_cluster(
        cluster_from(
            "template:\n  nodes: 2\n  gpus_per_node: 4\n  intra_node: {kind: pcie_tree, gpus_per_switch: 0, "
            "switches_per_bridge: 2, pcie_bandwidth: 16 GB/s, inter_bridge_bandwidth: 20 GB/s, latency: 0.5 us}\n"
            "  fabric: {kind: rail_only, nics_per_node: 2, nic_bandwidth: 50 GB/s, latency: 1 us, "
            "oversubscription: 1, nodes_per_leaf: 2}\n"),
        std::nullopt);
    CHECK(crossed(pcie, 0, 7).at("node1.gpu3") == 1);
  }
}

TEST_CASE("two planes carry half of every transfer each, and no switch joins them") {
  const Cluster c = build_cluster(cluster_from(nv_template("{kind: dual_plane, nics_per_node: 8, nic_bandwidth: 50 "
                                                           "GB/s, latency: 1 us, oversubscription: 2, nodes_per_leaf: "
                                                           "2}")),
                                  std::nullopt);
  CHECK(crossed(c, 1, 9) == Crossed{{"node0.nic1", 1},
                                    {"plane0.leaf0.rail1", 0.5},
                                    {"plane1.leaf0.rail1", 0.5},
                                    {"node1.nic1", 1},
                                    {"node1.gpu1", 1}});
  CHECK(crossed(c, 1, 10).at("plane0.spine") == 0.5);
  CHECK(crossed(c, 1, 10).at("plane1.spine") == 0.5);
  SECTION("a port has half of the NIC's 50 GB/s, a leaf's two ports half of their sum up") {
    CHECK(bandwidth_between(c.topology, "node0.gpu1", "node0.nic1") == 50e9);
    CHECK(bandwidth_between(c.topology, "node0.nic1", "plane1.leaf0.rail1") == 25e9);
    CHECK(bandwidth_between(c.topology, "plane1.leaf0.rail1", "plane1.spine") == 2 * 25e9 / 2);
  }
}

TEST_CASE("a dragonfly joins every two groups") {
  const ClusterSpec spec = cluster_from(nv_template(kDragonfly, 6));
  const Cluster c = build_cluster(spec, std::nullopt);
  CHECK(crossed(c, 0, 9).contains("group0"));
  CHECK(crossed(c, 0, 16) ==
        Crossed{{"node0.nic0", 1}, {"group0", 1}, {"group1", 1}, {"node2.nic0", 1}, {"node2.gpu0", 1}});
  SECTION("a group's 16 NICs of 50 GB/s, halved, are shared by its links to 2 other groups, used or not") {
    CHECK(bandwidth_between(c.topology, "group0", "group2") == 16 * 50e9 / 2 / 2);
    CHECK(bandwidth_between(build_cluster(spec, 32).topology, "group0", "group1") == 16 * 50e9 / 2 / 2);
  }
}

namespace {

ClusterTemplate racks(std::int64_t nodes) {
  return {.nodes = nodes,
          .gpus_per_node = 72,
          .intra_node = NvSwitch{.bandwidth = BytesPerSecond(900e9), .latency = Seconds(1e-6)},
          .fabric = Fabric{.kind = FabricKind::RailOptimised,
                           .nics_per_node = 36,
                           .nic_bandwidth = BytesPerSecond(100e9),
                           .latency = Seconds(1e-6),
                           .oversubscription = 1,
                           .nodes_per_leaf = 8}};
}

}  // namespace

TEST_CASE("jobs that racks do not divide use as many GPUs of each as divide them") {
  CHECK(used_per_node(racks(1), 48) == 72);   // one rack is enough
  CHECK(used_per_node(racks(1), 144) == 72);  // divided
  CHECK(used_per_node(racks(1), 8192) == 64);
  CHECK(used_per_node(racks(1), 96) == 48);
  CHECK(used_per_node(racks(1), 1018) == 72);  // twice a prime number: nothing divides it
  CHECK(used_per_node(racks(8), 512) == 64);
  CHECK(used_per_node(racks(7), 504) == 72);
  CHECK(used_per_node(racks(7), 480) == 72);  // 60 of each would need an eighth
  ClusterTemplate said = racks(1);
  said.used_per_node = 70;
  CHECK(used_per_node(said, 8192) == 70);
  ClusterTemplate hosts = racks(1);
  hosts.gpus_per_node = 8;
  CHECK(used_per_node(hosts, 12) == 8);  // no racks

  const ClusterTemplate used = used_part(racks(1), 128);
  CHECK(used.gpus_per_node == 64);
  CHECK(used.fabric->nics_per_node == 32);
  CHECK(used_part(racks(1), 144) == racks(1));
}

TEST_CASE("a PCIe tree has switches below bridges") {
  const std::string pcie =
      "gpus_per_switch: 2, switches_per_bridge: 2, pcie_bandwidth: 16 GB/s, inter_bridge_bandwidth: 20 GB/s, "
      "latency: 0.5 us";
  const std::string fabric =
      "  fabric: {kind: single_switch, nics_per_node: 2, nic_bandwidth: 90 GB/s, latency: 1 us}\n";
  SECTION("each pair takes the lowest common vertex, never the NIC") {
    const Cluster c =
        build_cluster(cluster_from("template:\n  nodes: 2\n  gpus_per_node: 8\n  intra_node: {kind: pcie_tree, " +
                                   pcie + "}\n" + fabric),
                      std::nullopt);
    CHECK(crossed(c, 0, 1) == Crossed{{"node0.pcie_switch0", 1}, {"node0.gpu1", 1}});
    CHECK(crossed(c, 0, 2) ==
          Crossed{{"node0.pcie_switch0", 1}, {"node0.bridge0", 1}, {"node0.pcie_switch1", 1}, {"node0.gpu2", 1}});
    CHECK(crossed(c, 0, 7) == Crossed{{"node0.pcie_switch0", 1},
                                      {"node0.bridge0", 1},
                                      {"node0.bridge1", 1},
                                      {"node0.pcie_switch3", 1},
                                      {"node0.gpu7", 1}});
    const Crossed out = crossed(c, 5, 8);
    CHECK(out.contains("node0.nic1"));  // the NIC of its own bridge
    CHECK(out.contains("node1.nic0"));
    CHECK(out.size() == 8);
  }
  SECTION("an NVLink is preferred, and GPUs without one fall back to PCIe") {
    const Cluster c = build_cluster(
        cluster_from("template:\n  nodes: 2\n  gpus_per_node: 4\n  intra_node:\n    kind: nvlink_mesh\n    links: "
                     "[{a: 0, b: 1, bandwidth: 10 GB/s}]\n    latency: 1 us\n    pcie: {" +
                     pcie + "}\n" + fabric),
        std::nullopt);
    CHECK(crossed(c, 1, 0) == Crossed{{"node0.gpu0", 1}});
    CHECK(crossed(c, 1, 2).contains("node0.bridge0"));
  }
}

}  // namespace moeplan::tests::cluster_template_test
