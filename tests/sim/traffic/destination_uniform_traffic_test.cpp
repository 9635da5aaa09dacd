#include "sim/traffic/destination_uniform_traffic.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>

#include "sim/traffic/route_rows.hpp"
#include "sim/traffic/traffic_file.hpp"
#include "tests/support/small_clusters.hpp"
#include "tests/support/traffic_network.hpp"

namespace moeplan::tests::destination_uniform_traffic_test {

using namespace moeplan::sim;

namespace {

/// The machine of data/README.md.
Cluster reference_cluster(std::int64_t ranks) {
  return build_cluster(
      spec_of(NvSwitch{BytesPerSecond(450e9), Seconds(0)}, 8, 8, fabric_of(FabricKind::SingleSwitch, 8)), ranks);
}

TrafficMatrix all_pairs(const std::vector<double>& bytes) {
  TrafficMatrix m{static_cast<std::int64_t>(bytes.size()), {}};
  for (std::size_t s = 0; s < bytes.size(); ++s) {
    for (std::size_t d = 0; d < bytes.size(); ++d) {
      if (s != d && bytes[d] > 0) m.flows.push_back({RankId(s), RankId(d), bytes[d]});
    }
  }
  return m;
}

/// The ends of all flows to each rank, ascending.
using Ends = std::map<RankId, std::vector<double>>;

Ends ends_of(const ColumnResult& result) {
  Ends ends;
  for (const ColumnClass& c : result.columns) {
    ends[c.dst].insert(ends[c.dst].end(), static_cast<std::size_t>(c.flows), c.finish_s);
  }
  for (auto& [dst, times] : ends) std::sort(times.begin(), times.end());
  return ends;
}

Ends ends_by_pairs(const Cluster& cluster, const std::vector<double>& bytes, double& finish, double& sum) {
  const TrafficMatrix m = all_pairs(bytes);
  const TrafficResult got = simulate_traffic(m, traffic_network(cluster), true);
  finish = got.finish_s;
  sum = got.sum_flow_finish_s;
  Ends ends;
  for (std::size_t f = 0; f < m.flows.size(); ++f) ends[m.flows[f].dst].push_back(got.flow_finish_s[f]);
  for (auto& [dst, times] : ends) std::sort(times.begin(), times.end());
  return ends;
}

bool is_near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }

/// What differs from the simulation of every pair; empty if nothing does. `none` where columns are not enough.
std::string difference(const Cluster& cluster, const std::vector<double>& bytes, bool& is_factored) {
  const auto answer = DestinationUniformTraffic(cluster).simulate(bytes, true, 0);
  is_factored = std::holds_alternative<ColumnResult>(answer);
  if (!is_factored) return "";
  const auto& got = std::get<ColumnResult>(answer);
  double finish = 0, sum = 0;
  const Ends expected = ends_by_pairs(cluster, bytes, finish, sum);
  if (!is_near(got.finish_s, finish)) return "the last end";
  if (!is_near(got.sum_flow_finish_s, sum)) return "the sum";
  const Ends ends = ends_of(got);
  if (ends.size() != expected.size()) return "the number of columns";
  for (const auto& [dst, times] : expected) {
    const auto it = ends.find(dst);
    if (it == ends.end() || it->second.size() != times.size()) return "the flows to a rank";
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (!is_near(it->second[i], times[i])) return "the end of a flow to " + std::to_string(dst.value());
    }
  }
  return "";
}

void expect_as_by_pairs(const Cluster& cluster, const std::vector<double>& bytes) {
  bool is_factored = false;
  CHECK(difference(cluster, bytes, is_factored) == "");
  CHECK(is_factored);
}

std::vector<double> popularity(std::int64_t ranks, unsigned seed) {
  std::mt19937_64 bits(seed);
  std::vector<double> bytes;
  for (std::int64_t r = 0; r < ranks; ++r) bytes.push_back(std::floor(1e9 / static_cast<double>(1 + bits() % 97)));
  return bytes;
}

}  // namespace

TEST_CASE("Same-popularity reference traffic by column ends when the exact max-min solution says") {
  const std::filesystem::path folder = MOEPLAN_SOURCE_DIR "/../shared/data/traffic";
  if (!std::filesystem::exists(folder)) {
    WARN("skipped: no reference traffic at ../shared/data/traffic");
    return;
  }
  struct Expected {
    const char* file;
    double finish_s, sum_flow_finish_s;
  };
  // The table of data/README.md beside the files.
  const auto x =
      GENERATE(Expected{"uniform-128", 0.0012582912, 19.3346602416}, Expected{"zipf-64", 0.01584394, 4.21637309788},
               Expected{"zipf-512", 0.09923797296, 340.940409168});
  CAPTURE(x.file);
  const TrafficFile file = read_traffic(folder / (std::string(x.file) + ".csv.gz"));
  std::vector<double> bytes(static_cast<std::size_t>(file.matrix.ranks), 0);
  for (const TrafficFlow& f : file.matrix.flows) bytes[f.dst.index()] = f.bytes;
  const Cluster cluster = reference_cluster(file.matrix.ranks);
  const auto got = std::get<ColumnResult>(DestinationUniformTraffic(cluster).simulate(bytes, false, 0));
  CHECK(got.method == TrafficMethod::Decoupled);
  CHECK_FALSE(got.is_by_pairs);
  CHECK(got.finish_s == Approx(x.finish_s).epsilon(1e-9));
  CHECK(got.sum_flow_finish_s == Approx(x.sum_flow_finish_s).epsilon(1e-9));
}

TEST_CASE("Columns end as the same flows do pair by pair") {
  const NvSwitch nvswitch{BytesPerSecond(450e9), Seconds(0)};
  const PcieTree pcie{.gpus_per_switch = 2,
                      .switches_per_bridge = 1,
                      .pcie_bandwidth = BytesPerSecond(16e9),
                      .inter_bridge_bandwidth = BytesPerSecond(20e9),
                      .latency = Seconds(0)};
  SECTION("one switch") { expect_as_by_pairs(reference_cluster(40), popularity(40, 1)); }
  SECTION("one node") { expect_as_by_pairs(reference_cluster(8), popularity(8, 2)); }
  SECTION("the toy tree: a link a node") { expect_as_by_pairs(toy_cluster(5, 4), popularity(20, 3)); }
  SECTION("rails") {
    const Cluster c = build_cluster(spec_of(nvswitch, 12, 4, fabric_of(FabricKind::RailOptimised, 4, 1, 4)), {});
    expect_as_by_pairs(c, popularity(48, 4));
  }
  SECTION("rails, one node a leaf, oversubscribed by two: expect leaf links to hold, and sources not") {
    const Cluster c = build_cluster(spec_of(nvswitch, 12, 4, fabric_of(FabricKind::RailOptimised, 4, 2, 1)), {});
    expect_as_by_pairs(c, popularity(48, 5));
  }
  SECTION("dragonfly: groups that are alike stand for one another") {
    const Cluster c = build_cluster(spec_of(nvswitch, 12, 4, fabric_of(FabricKind::Dragonfly, 4, 2, 2)), {});
    expect_as_by_pairs(c, popularity(48, 6));
    const auto got = std::get<ColumnResult>(DestinationUniformTraffic(c).simulate(popularity(48, 6), false, 0));
    // For each rank: near, its group, all other groups. Near ones are 4 resources a node.
    CHECK(got.classes <= 48 * 3);
  }
  SECTION("two host bridges a node, two NICs") {
    const Cluster c = build_cluster(spec_of(pcie, 6, 4, fabric_of(FabricKind::SingleSwitch, 2)), {});
    expect_as_by_pairs(c, popularity(24, 7));
  }
  SECTION("two NICs on one bridge: the transfer is split") {
    PcieTree one = pcie;
    one.switches_per_bridge = 2;
    const Cluster c = build_cluster(spec_of(one, 6, 4, fabric_of(FabricKind::SingleSwitch, 2)), {});
    expect_as_by_pairs(c, popularity(24, 8));
  }
  SECTION("direct links beside the tree") {
    const NvlinkMesh mesh{
        .links = {{0, 1, BytesPerSecond(100e9)}, {2, 3, BytesPerSecond(50e9)}}, .latency = Seconds(0), .pcie = pcie};
    const Cluster c = build_cluster(spec_of(mesh, 5, 4, fabric_of(FabricKind::SingleSwitch, 1)), {});
    expect_as_by_pairs(c, popularity(20, 9));
  }
  SECTION("columns without bytes") {
    std::vector<double> bytes = popularity(24, 10);
    bytes[3] = bytes[18] = 0;
    expect_as_by_pairs(reference_cluster(24), bytes);
  }
  SECTION("nothing to send takes no time") {
    const auto got = std::get<ColumnResult>(
        DestinationUniformTraffic(reference_cluster(16)).simulate(std::vector(16, 0.0), true, 0));
    CHECK(got.finish_s == 0);
    CHECK(got.columns.empty());
  }
}

TEST_CASE("Where sources may be held back by their own side, pairs are simulated if they are few") {
  const NvSwitch nvswitch{BytesPerSecond(450e9), Seconds(0)};
  const auto expect_refusal = [](const Cluster& cluster, const std::string& reason) {
    const std::vector<double> bytes = popularity(cluster.world_size(), 11);
    const DestinationUniformTraffic traffic(cluster);
    CHECK(std::get<std::string>(traffic.simulate(bytes, true, cluster.world_size() - 1)) == reason);
    const auto got = std::get<ColumnResult>(traffic.simulate(bytes, true, cluster.world_size()));
    CHECK(got.is_by_pairs);
    double finish = 0, sum = 0;
    const Ends expected = ends_by_pairs(cluster, bytes, finish, sum);
    CHECK(got.finish_s == Approx(finish).epsilon(1e-9));
    CHECK(got.sum_flow_finish_s == Approx(sum).epsilon(1e-9));
    CHECK(ends_of(got).size() == expected.size());
  };
  SECTION("part of a node: its few ranks send more over their NICs than others") {
    expect_refusal(reference_cluster(19), "the link from node2.gpu0 to node2.nic0 may hold sources back");
  }
  SECTION("leaves of several nodes, oversubscribed: flows within a leaf and beyond it share NICs unevenly") {
    const Cluster c = build_cluster(spec_of(nvswitch, 12, 4, fabric_of(FabricKind::RailOptimised, 4, 2, 4)), {});
    expect_refusal(c, "the link from node0.gpu0 to node0.nic0 may hold sources back");
  }
  SECTION("a NIC on two bridges' ways: the network is one block with a wide and a narrow way") {
    Topology t;
    const auto vertex = [&](const char* name, VertexKind kind) {
      t.vertices.push_back({name, kind, kind == VertexKind::Gpu ? std::optional(0) : std::nullopt});
      return VertexId(t.vertices.size() - 1);
    };
    const auto cable = [&](VertexId a, VertexId b, double rate) {
      t.links.push_back({a, b, BytesPerSecond(rate), Seconds(0), LinkTier::Core});
      t.links.push_back({b, a, BytesPerSecond(rate), Seconds(0), LinkTier::Core});
    };
    const VertexId g0 = vertex("g0", VertexKind::Gpu), g1 = vertex("g1", VertexKind::Gpu);
    const VertexId a = vertex("a", VertexKind::NetworkSwitch), b = vertex("b", VertexKind::NetworkSwitch);
    const VertexId x = vertex("x", VertexKind::NetworkSwitch), y = vertex("y", VertexKind::NetworkSwitch);
    cable(g0, a, 1e9);
    cable(g1, b, 1e9);
    cable(a, x, 2e9);
    cable(x, b, 2e9);
    cable(a, y, 3e9);
    cable(y, b, 3e9);
    ClusterSpec spec = spec_of(nvswitch, 1, 1, std::nullopt);
    spec.machine = t;
    const Cluster c = build_cluster(spec, {});
    // The GPUs' links are narrower than both ways, yet only the wider one is taken: not factored.
    expect_refusal(c, "paths of equally many hops have different bandwidths");
  }
}

TEST_CASE("Columns on random small clusters end as every pair does") {
  rc::prop("or the pairs are needed", [] {
    const Cluster cluster = random_cluster();
    const auto sizes = *whole_range(1, 6);
    std::vector<double> bytes;
    for (std::int64_t r = 0; r < cluster.world_size(); ++r) {
      bytes.push_back(1e6 * static_cast<double>(*whole_range(0, sizes + 1)));
    }
    bool is_factored = false;
    const std::string wrong = difference(cluster, bytes, is_factored);
    RC_CLASSIFY(is_factored, "by column");
    RC_CLASSIFY(is_factored && cluster.world_size() > 12, "by column, more than 12 ranks");
    if (!wrong.empty()) RC_FAIL(wrong);
  });
}

}  // namespace moeplan::tests::destination_uniform_traffic_test
