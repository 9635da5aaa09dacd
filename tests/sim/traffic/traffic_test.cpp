#include "sim/traffic/traffic.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <random>

#include "model/machine/cluster.hpp"
#include "sim/traffic/traffic_file.hpp"
#include "tests/support/reference_cluster.hpp"
#include "tests/support/traffic_network.hpp"

namespace moeplan::tests::traffic_test {

using namespace moeplan::sim;

namespace {

struct Expected {
  const char* file;
  double finish_s;
  double sum_flow_finish_s;
  TrafficMethod method;
};

/// Flow by flow on the plain engine.
std::vector<double> plain_finish(const TrafficMatrix& matrix, const TrafficNetwork& network) {
  const auto n = make_plain_network();
  for (const double c : network.capacity) n->add_resource(c);
  for (const TrafficFlow& f : matrix.flows) {
    std::vector<FlowUse> uses;
    if (f.src != f.dst) network.route(f.src, f.dst, uses);
    n->start(uses, f.bytes, 1, 0);
  }
  std::vector<double> finish(matrix.flows.size());
  std::vector<FlowId> done;
  while (const auto t = n->next_completion()) {
    done.clear();
    n->advance(*t, done);
    for (const FlowId f : done) finish[f.index()] = *t;
  }
  return finish;
}

template <class Bytes>
TrafficMatrix matrix_of(int ranks, Bytes&& bytes) {
  TrafficMatrix m{ranks, {}};
  for (int s = 0; s < ranks; ++s) {
    for (int d = 0; d < ranks; ++d) {
      if (s != d) m.flows.push_back({RankId(s), RankId(d), static_cast<double>(bytes(s, d))});
    }
  }
  return m;
}

void expect_plain(const TrafficMatrix& m, const TrafficNetwork& network, TrafficMethod method) {
  const TrafficResult got = simulate_traffic(m, network, true);
  CHECK(got.method == method);
  const std::vector<double> expected = plain_finish(m, network);
  double sum = 0;
  for (std::size_t f = 0; f < expected.size(); ++f) {
    sum += expected[f];
    if (std::abs(got.flow_finish_s[f] - expected[f]) > 1e-9 * expected[f]) {
      CAPTURE(f, got.flow_finish_s[f], expected[f]);
      FAIL("a flow ends at another time");
    }
  }
  CHECK(got.finish_s == Approx(*std::max_element(expected.begin(), expected.end())).epsilon(1e-9));
  CHECK(got.sum_flow_finish_s == Approx(sum).epsilon(1e-9));
}

}  // namespace

TEST_CASE("Reference traffic ends when the exact max-min solution says", "[slow]") {
  const std::filesystem::path folder = MOEPLAN_SOURCE_DIR "/../shared/data/traffic";
  if (!std::filesystem::exists(folder)) {
    WARN("skipped: no reference traffic at ../shared/data/traffic");
    return;
  }
  // The table of data/README.md beside the files.
  const auto x = GENERATE(Expected{"uniform-128", 0.0012582912, 19.3346602416, TrafficMethod::Decoupled},
                          Expected{"zipf-64", 0.01584394, 4.21637309788, TrafficMethod::Decoupled},
                          Expected{"zipf-512", 0.09923797296, 340.940409168, TrafficMethod::Decoupled},
                          Expected{"zipfs-128", 0.02973564928, 17.8053239696, TrafficMethod::Flows},
                          Expected{"zipfj-64", 0.01585792512, 4.01208977768, TrafficMethod::Flows},
                          Expected{"zipfs-256", 0.05437816832, 73.7440233352, TrafficMethod::Flows});
  CAPTURE(x.file);
  const TrafficFile file = read_traffic(folder / (std::string(x.file) + ".csv.gz"));
  const TrafficResult got = simulate_traffic(file.matrix, reference_machine(file.matrix.ranks), true);
  CHECK(got.method == x.method);
  CHECK(got.finish_s == Approx(x.finish_s).epsilon(1e-9));
  CHECK(got.sum_flow_finish_s == Approx(x.sum_flow_finish_s).epsilon(1e-9));
  for (std::size_t f = 0; f < file.finish_s.size(); ++f) {
    if (std::abs(got.flow_finish_s[f] - file.finish_s[f]) > 1e-9 * file.finish_s[f]) {
      CAPTURE(f, got.flow_finish_s[f], file.finish_s[f]);
      FAIL("a flow ends at another time than the file says");
    }
  }
}

TEST_CASE("Traffic with structure is not simulated flow by flow") {
  SECTION("Uniform on 16 ranks: expect bytes * 8 / 50 GB/s, because 8 flows share each NIC") {
    const TrafficMatrix m = matrix_of(16, [](int, int) { return 1 << 20; });
    const TrafficResult got = simulate_traffic(m, reference_machine(16), false);
    CHECK(got.method == TrafficMethod::Decoupled);
    CHECK(got.finish_s == Approx((1 << 20) * 8 / 50e9).epsilon(1e-14));
    expect_plain(m, reference_machine(16), TrafficMethod::Decoupled);
  }
  SECTION("Equal columns decouple by destination, equal rows by source, because each NIC then has one size") {
    expect_plain(matrix_of(24, [](int, int d) { return 1e6 / (1 + d); }), reference_machine(24),
                 TrafficMethod::Decoupled);
    expect_plain(matrix_of(24, [](int s, int) { return 1e6 / (1 + s); }), reference_machine(24),
                 TrafficMethod::Decoupled);
  }
  SECTION("A large and a small size by turns: expect classes, because ranks of one parity behave alike") {
    const auto network = reference_machine(32);
    const TrafficMatrix m = matrix_of(32, [](int s, int d) { return (s + d) % 2 == 0 ? 3e6 : 1e6; });
    CHECK(simulate_traffic(m, network, false).classes == 4);
    expect_plain(m, network, TrafficMethod::Classes);
  }
  SECTION("An oversubscribed core that all share: expect classes of flows, because no NIC is the bottleneck") {
    TrafficNetwork network = reference_machine(32);
    network.capacity.push_back(400e9);
    const RouteFunction inner = network.route;
    network.route = [inner](RankId src, RankId dst, std::vector<FlowUse>& uses) {
      inner(src, dst, uses);
      if (src.value() / 8 == dst.value() / 8) return;
      uses.insert(uses.begin() + 1, FlowUse{ResourceId(4 * 32), 1});
    };
    expect_plain(matrix_of(32, [](int s, int d) { return (s + d) % 2 == 0 ? 3e6 : 1e6; }), network,
                 TrafficMethod::Classes);
  }
}

TEST_CASE("Traffic without structure agrees with the plain engine flow by flow") {
  std::mt19937_64 bits(20261121);
  SECTION("all sizes different") {
    expect_plain(matrix_of(24, [&](int, int) { return 1.0 + static_cast<double>(bits() % 1'000'000'000); }),
                 reference_machine(24), TrafficMethod::Flows);
  }
  SECTION("few sizes, some of them 0") {
    expect_plain(matrix_of(32, [&](int, int d) { return 16384 * (bits() % (d < 4 ? 20 : 3)); }), reference_machine(32),
                 TrafficMethod::Flows);
  }
}

TEST_CASE("Traffic of no flows, of self traffic and of nothing to send takes no time") {
  CHECK(simulate_traffic({4, {}}, reference_machine(8), true).finish_s == 0);
  const TrafficMatrix m{4, {{RankId(1), RankId(1), 5.0}, {RankId(0), RankId(1), 0.0}}};
  const TrafficResult got = simulate_traffic(m, reference_machine(8), true);
  CHECK(got.finish_s == 0);
  CHECK(got.flow_finish_s == std::vector<double>{0, 0});
}

TEST_CASE("A cluster's links and routes carry traffic") {
  // Two nodes of 8 GPUs with the reference machine's bandwidths; a NIC a GPU, a non-blocking core.
  ClusterTemplate machine{.nodes = 2,
                          .gpus_per_node = 8,
                          .intra_node = NvSwitch{.bandwidth = BytesPerSecond(450e9), .latency = Seconds(0)},
                          .fabric = Fabric{.kind = FabricKind::SingleSwitch,
                                           .nics_per_node = 8,
                                           .nic_bandwidth = BytesPerSecond(50e9),
                                           .latency = Seconds(0),
                                           .oversubscription = 1,
                                           .nodes_per_leaf = 2}};
  const ClusterSpec spec{.name = "two nodes",
                         .gpu = {},
                         .machine = machine,
                         .collectives = {},
                         .collective_startup = Seconds(0),
                         .message_overhead = Seconds(0)};
  const Cluster cluster = build_cluster(spec, std::nullopt);
  std::mt19937_64 bits(5);
  const TrafficMatrix m = matrix_of(16, [&](int, int) { return 1e5 + static_cast<double>(bits() % 1'000'000); });
  const auto on_cluster = simulate_traffic(m, traffic_network(cluster), true).flow_finish_s;
  const auto on_reference = simulate_traffic(m, reference_machine(16), true).flow_finish_s;
  for (std::size_t f = 0; f < m.flows.size(); ++f) {
    // The same machine: the switch's side of a link and the cables beyond the NIC hold nobody back.
    REQUIRE(on_cluster[f] == Approx(on_reference[f]).epsilon(1e-9));
  }
}

}  // namespace moeplan::tests::traffic_test
