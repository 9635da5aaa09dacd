// The collectives of shipped clusters: alpha-beta entries, and models that follow the links.
#include <catch2/catch.hpp>
#include <string>

#include "model/collectives/collective_models.hpp"
#include "model/machine/cluster.hpp"
#include "model/machine/cluster_template.hpp"
#include "model/text/document.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::cluster_collectives_test {

TEST_CASE("a measured collective of configs/clusters is not faster than the links allow when it is alone") {
  // All-to-all and all-gather of P GPUs move (P - 1) / P of n into each GPU, over its own way into the node.
  for (const std::string name : {"parm_testbed_b", "dgx_a100", "dgx_h100", "hgx_b300", "gb200_nvl72"}) {
    INFO(name);
    const ClusterSpec spec = tests::load_cluster(tests::kConfigs / "clusters" / (name + ".yaml"));
    const auto& machine = std::get<ClusterTemplate>(spec.machine);
    const bool pcie = std::holds_alternative<PcieTree>(machine.intra_node);
    const double inner = pcie ? std::get<PcieTree>(machine.intra_node).pcie_bandwidth.value()
                              : std::get<NvSwitch>(machine.intra_node).bandwidth.value();
    const double p = static_cast<double>(machine.gpus_per_node);
    if (!pcie) {
      REQUIRE(spec.collective_models);
      const GroupShape node{machine.gpus_per_node, 1};
      for (const Collective c : {Collective::AllGather, Collective::AllToAll}) {
        const auto cost = collective_cost(*spec.collective_models, c, node, Bytes(1e9));
        REQUIRE(cost);
        CHECK((p - 1) / p * 1e9 / cost->time().value() < inner);
      }
      continue;
    }
    CHECK((p - 1) / p / spec.collectives.at({Collective::AllGather, Span::IntraNode}).beta.value() < inner);
    // One GPU a node and group, all groups at once: they share the NIC.
    const double nodes = static_cast<double>(machine.nodes), nic = machine.fabric->nic_bandwidth.value();
    CHECK(p * (nodes - 1) / nodes / spec.collectives.at({Collective::AllToAll, Span::InterNode}).beta.value() < nic);
    CHECK(2 * p * (nodes - 1) / nodes / spec.collectives.at({Collective::AllReduce, Span::InterNode}).beta.value() <
          nic);
  }
}

TEST_CASE("collectives named by a cluster follow its links") {
  const auto time = [](const std::string& key, const std::string& value, GroupShape shape) {
    Node document = tests::cluster_document(tests::cluster_path("dgx_h100"));
    if (!key.empty()) override_value(document, key, value, "-C");
    const ClusterSpec spec = read_cluster(document);
    REQUIRE(spec.collective_models);
    return collective_cost(*spec.collective_models, Collective::AllToAll, shape, Bytes(1e9))->time().value();
  };
  const GroupShape node{8, 1}, two{16, 2};
  const double inside = time("", "", node), between = time("", "", two);
  SECTION("because they were measured on links of known bandwidth") {
    CHECK(time("template.intra_node.bandwidth", "900 GB/s", node) < 0.6 * inside);
    CHECK(time("template.intra_node.bandwidth", "225 GB/s", node) > 1.8 * inside);
    CHECK(time("template.fabric.nic_bandwidth", "800 Gbps", two) < 0.7 * between);
    CHECK(time("template.fabric.nic_bandwidth", "800 Gbps", node) == inside);
    CHECK(time("template.fabric.nics_per_node", "4", two) > 1.8 * between);
  }
  SECTION("PCIe nodes too, whose host's memory is taken to be as many times faster as their slots") {
    Node document = tests::cluster_document(tests::cluster_path("l40s_pcie"));
    const auto models_of = [](const Node& d) { return read_cluster(d).collective_models; };
    const auto measured = models_of(document);
    override_value(document, "template.intra_node.pcie_bandwidth", "63 GB/s", "-C");
    const auto faster = models_of(document);
    for (const std::int64_t ranks : {2, 8}) {
      CHECK(collective_cost(*faster, Collective::AllReduce, {ranks, 1}, Bytes(1e9))->time().value() ==
            Approx(collective_cost(*measured, Collective::AllReduce, {ranks, 1}, Bytes(1e9))->time().value() / 2)
                .epsilon(0.01));
    }
  }
  SECTION("none leaves them to the links") {
    Node document = tests::cluster_document(tests::cluster_path("dgx_h100"));
    override_value(document, "collectives", "none", "-C");
    const ClusterSpec spec = read_cluster(document);
    CHECK_FALSE(spec.collective_models);
    CHECK(spec.collectives.empty());
  }
}

}  // namespace moeplan::tests::cluster_collectives_test
