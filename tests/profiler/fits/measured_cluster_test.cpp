#include "profiler/fits/measured_cluster.hpp"

#include <catch2/catch.hpp>

#include "tests/support/checks.hpp"

namespace moeplan::tests::measured_cluster_test {

using namespace moeplan::profiler;

namespace {

constexpr double kGiB = 1073741824;

CollectiveSample sample(GroupShape shape, double time) {
  return {.collective = Collective::AllToAll,
          .shape = shape,
          .n = Bytes(kGiB),
          .time = Seconds(time),
          .in_place = false,
          .dtype = "float",
          .device = "",
          .where = {"a.log", 7}};
}

const char* const kSwitched =
    "name: old\ngpu: {name: g}\n"
    "template:\n  nodes: 4\n  gpus_per_node: 8\n"
    "  intra_node: {kind: nvswitch, bandwidth: 450 GB/s, latency: 0.5 us}\n"
    "  fabric: {kind: single_switch, nics_per_node: 4, nic_bandwidth: 400 Gbps, latency: 1 us}\n"
    "collectives: old\ncollective_startup: 6 us\n"
    "origins: {\"\": \"datasheet: d\", gpu.name: \"datasheet: g\", collectives: \"measured: m\", "
    "template.fabric.nic_bandwidth: \"datasheet: n\"}\n";

SimilarCluster switched() {
  return {.name = "old",
          .document = parse_yaml(kSwitched, "old.yaml"),
          .machine = {.nodes = 4,
                      .gpus_per_node = 8,
                      .intra_node = NvSwitch{BytesPerSecond(450e9), Seconds(0.5e-6)},
                      .fabric = Fabric{.kind = FabricKind::SingleSwitch,
                                       .nics_per_node = 4,
                                       .nic_bandwidth = BytesPerSecond(50e9),
                                       .latency = Seconds(1e-6),
                                       .oversubscription = 1,
                                       .nodes_per_leaf = 1}}};
}

MeasuredCluster made_of(const SimilarCluster& like, const std::vector<CollectiveSample>& samples) {
  return measured_cluster(like, {.name = "new", .gpu = "h100_sxm", .hosts = {"h0", "h1", "h2"}}, samples,
                          fit_collectives(samples));
}

}  // namespace

TEST_CASE("a measured cluster has the logs' shape and rates, and their origins") {
  // 4 ranks of a node, of 8 with 4 NICs: 2 NICs, each of which carries what 2 ranks send to the other node.
  const MeasuredCluster got = made_of(switched(), {sample({4, 1}, 0.002), sample({8, 2}, 0.02)});
  CHECK(got.machine.nodes == 3);
  CHECK(got.machine.gpus_per_node == 4);
  CHECK(got.machine.fabric->nics_per_node == 2);
  CHECK(std::get<NvSwitch>(got.machine.intra_node).bandwidth.value() == Approx(0.75 * kGiB / 0.002));
  CHECK(got.machine.fabric->nic_bandwidth.value() == Approx(kGiB / 0.02));
  const Node& origins = *got.document.find("origins");
  CHECK(origins.find("")->scalar == "assumed: as old (datasheet: d)");
  CHECK(origins.find("template.nodes")->scalar == "measured: nodes that the logs name: a.log");
  CHECK(origins.find("template.fabric.nic_bandwidth")->scalar ==
        "measured: all_to_all of 1.000 GiB on 8 ranks of 2 nodes, a.log:7");
  CHECK(origins.find("collectives[0]")->scalar == "measured: nccl-tests a.log");
  SECTION("what is replaced has no origin of the other cluster") {
    CHECK(origins.find("collectives") == nullptr);
    CHECK(origins.find("gpu.name") == nullptr);
    CHECK(got.document.find("gpu")->scalar == "h100_sxm");
    CHECK(got.document.find("name")->scalar == "new");
  }
}

TEST_CASE("several links inside a node stay, since a collective's time does not tell them apart") {
  SimilarCluster like = switched();
  like.machine.intra_node = PcieTree{.gpus_per_switch = 4,
                                     .switches_per_bridge = 1,
                                     .pcie_bandwidth = BytesPerSecond(16e9),
                                     .inter_bridge_bandwidth = BytesPerSecond(40e9),
                                     .latency = Seconds(1e-6)};
  const MeasuredCluster got = made_of(like, {sample({8, 1}, 0.2)});
  CHECK_FALSE(got.intra_node);
  REQUIRE(got.kept.size() == 2);
  CHECK(got.kept[0].find("template.intra_node, as old: several links") == 0);
  CHECK(got.kept[1] == "template.fabric.nic_bandwidth = 50.00 GB/s, as old: there are no logs between nodes");
}

TEST_CASE("logs between nodes need a cluster with a fabric") {
  SimilarCluster like = switched();
  like.machine.fabric.reset();
  CHECK(error_of([&] {
          (void)made_of(like, {sample({8, 2}, 0.02)});
        }) == "--like: old has no fabric, and the logs are of 3 nodes; name a cluster of several nodes");
}

}  // namespace moeplan::tests::measured_cluster_test
