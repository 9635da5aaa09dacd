#include "model/workload/gate.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/checks.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::gate_test {

using moeplan::tests::error_of;

namespace {

std::int64_t at(const RoutingCounts& c, std::int32_t source, std::int32_t expert) {
  return c.at(RankId(source), ExpertId(expert));
}

std::int64_t row_sum(const RoutingCounts& c, std::int32_t source) {
  std::int64_t sum = 0;
  for (std::int32_t e = 0; e < c.experts(); ++e) sum += at(c, source, e);
  return sum;
}

/// Two nodes of two ranks, two experts a rank: experts 0 to 3 are near ranks 0 and 1.
bool is_near(RankId source, ExpertId expert) { return source.value() / 2 == expert.value() / 4; }

Gate read(const std::string& yaml) {
  const Node document = parse_yaml(yaml, "f");
  Diagnostics diagnostics;
  const Gate gate = read_gate(MapReader(document, "", diagnostics));
  diagnostics.throw_if_any();
  return gate;
}

}  // namespace

TEST_CASE("The topology gate of FasterMoE lets so many selections leave a node that the network is no slower") {
  // [FasterMoE] sec. 4.3: L = W_net / (m W_local) B. B = 80 tokens of one expert each, m = 2 workers a node.
  const RoutingCounts even = RoutingCounts::uniform(4, 8, 10);
  SECTION("W_net / W_local = 1 / 2: 20 of the 40 that would leave go, the others stay") {
    const GatedRouting g = topology_gated(even, 1, 0.5, 2, is_near);
    CHECK(g.selections == 4 * 80);
    CHECK(g.rerouted == 4 * (40 - 20));
    CHECK(g.dropped == 0);
    for (std::int32_t e = 0; e < 8; ++e) CHECK(at(g.counts, 0, e) == (e < 4 ? (80 - 20) / 4 : 20 / 4));
    for (std::int32_t e = 0; e < 8; ++e) CHECK(at(g.counts, 3, e) == (e < 4 ? 20 / 4 : (80 - 20) / 4));
  }
  SECTION("W_net / W_local = 1: 40 may leave, so nothing changes, not even the compact form") {
    const GatedRouting g = topology_gated(even, 1, 1.0, 2, is_near);
    CHECK(g.counts == even);
    CHECK(g.rerouted + g.dropped == 0);
  }
  SECTION("a token selects an expert once: without room near by, selections are given up") {
    // Two experts, one near; tokens select both. 10 tokens: 20 selections, of which floor(0.1 / 2 x 20) = 1 may leave.
    const GatedRouting g = topology_gated(RoutingCounts::uniform(1, 2, 10), 2, 0.1, 2,
                                          [](RankId, ExpertId e) { return e == ExpertId(0); });
    CHECK(at(g.counts, 0, 0) == 10);
    CHECK(at(g.counts, 0, 1) == 1);
    CHECK(g.dropped == 9);
    CHECK(g.rerouted == 0);
  }
  SECTION("who stays selects among near experts as tokens did before: in proportion") {
    // 0 and 1 near with 30 and 10, 2 and 3 far with 30 and 10; floor(1 / 4 x 80) = 20 leave, so 20 more stay.
    const GatedRouting g = topology_gated(RoutingCounts::by_expert(1, {30, 10, 30, 10}), 1, 0.25, 1,
                                          [](RankId, ExpertId e) { return e.value() < 2; });
    CHECK(g.counts == RoutingCounts::by_expert(1, {30 + 15, 10 + 5, 15, 5}));
  }
}

TEST_CASE("A capacity gate gives each expert at most so many rows of a source") {
  const RoutingCounts skewed = RoutingCounts::by_expert(2, {50, 20, 6, 4});  // 40 tokens, top 2
  const auto capacity = [](double factor) { return static_cast<std::int64_t>(std::ceil(2 * factor * 40 / 4)); };
  SECTION("GShard: what is beyond f k tokens / E is dropped; without padding the rest stays as it is") {
    const GatedRouting g = capacity_gated(skewed, 2, 40, 1.2, /*is_padded=*/false, 1);
    CHECK(g.counts == RoutingCounts::by_expert(2, {capacity(1.2), 20, 6, 4}));
    CHECK(g.selections == 2 * 80);
    CHECK(g.dropped == 2 * (50 - capacity(1.2)));
    CHECK(g.padding == 0);
  }
  SECTION("padded, every expert takes as many rows, in equal parts") {
    const GatedRouting g = capacity_gated(skewed, 2, 40, 1.2, /*is_padded=*/true, 5);
    const std::int64_t rows = 25;  // 24, up to a multiple of 5
    REQUIRE(capacity(1.2) == 24);
    CHECK(g.counts == RoutingCounts::uniform(2, 4, rows));
    CHECK(g.dropped == 2 * (50 - rows));
    CHECK(g.padding == 2 * (4 * rows - (rows + 20 + 6 + 4)));
  }
  SECTION("Tutel's setting 0 is the least that drops nothing: the largest count of any source") {
    const RoutingCounts counts = RoutingCounts::dense(2, 2, {10, 30, 25, 15});
    const GatedRouting g = capacity_gated(counts, 1, 40, 0, /*is_padded=*/true, 1);
    CHECK(g.counts == RoutingCounts::uniform(2, 2, 30));
    CHECK(g.dropped == 0);
    CHECK(capacity_gated(counts, 1, 40, 0, /*is_padded=*/false, 1).counts == counts);
  }
  SECTION("below 0 it is that, bounded") {
    CHECK(capacity_gated(skewed, 2, 40, -4, true, 1).counts == RoutingCounts::uniform(2, 4, 50));
    CHECK(capacity_gated(skewed, 2, 40, -1.5, true, 1).counts == RoutingCounts::uniform(2, 4, capacity(1.5)));
  }
}

TEST_CASE("Gates conserve selections and keep their limits, whatever is asked") {
  rc::prop("topology", [] {
    const auto ranks = *rc::gen::inRange<std::int64_t>(1, 9), experts = *rc::gen::inRange<std::int64_t>(1, 12);
    const auto top_k = *rc::gen::inRange<std::int64_t>(1, experts + 1), tokens = *rc::gen::inRange<std::int64_t>(0, 60);
    const double ratio = *rc::gen::inRange(1, 400) / 100.0;
    const auto node = *rc::gen::inRange<std::int64_t>(1, 5);
    const RoutingScenario scenario{
        .shape = RoutingShape::Zipf, .sampled = true, .seed = *rc::gen::arbitrary<std::uint32_t>()};
    const RoutingCounts asked = make_routing(scenario, ranks, experts, tokens, top_k, 1);
    const auto near = [&](RankId r, ExpertId e) { return (r.value() + e.value()) % 3 == 0; };
    const GatedRouting g = topology_gated(asked, top_k, ratio, node, near);
    std::int64_t kept = 0;
    for (std::int32_t r = 0; r < ranks; ++r) {
      std::int64_t far = 0, far_asked = 0;
      for (std::int32_t e = 0; e < experts; ++e) {
        RC_ASSERT(at(g.counts, r, e) >= 0 && at(g.counts, r, e) <= tokens);
        if (near(RankId(r), ExpertId(e))) continue;
        RC_ASSERT(at(g.counts, r, e) <= at(asked, r, e));
        far += at(g.counts, r, e);
        far_asked += at(asked, r, e);
      }
      const double most = ratio / static_cast<double>(node) * static_cast<double>(tokens * top_k);
      RC_ASSERT(static_cast<double>(far) <= std::max(most, 0.0) + 1e-9);
      if (static_cast<double>(far_asked) <= std::floor(most)) RC_ASSERT(far == far_asked);
      kept += row_sum(g.counts, r);
    }
    RC_ASSERT(kept + g.dropped == g.selections);
    RC_ASSERT(g.selections == ranks * tokens * top_k);
  });
  rc::prop("capacity", [] {
    const auto ranks = *rc::gen::inRange<std::int64_t>(1, 6), experts = *rc::gen::inRange<std::int64_t>(1, 9);
    const auto top_k = *rc::gen::inRange<std::int64_t>(1, experts + 1), tokens = *rc::gen::inRange<std::int64_t>(0, 60);
    const double factor = *rc::gen::inRange(-30, 30) / 10.0;
    const auto parts = *rc::gen::inRange<std::int64_t>(1, 9);
    const bool padded = *rc::gen::arbitrary<bool>();
    const RoutingScenario scenario{
        .shape = RoutingShape::Zipf, .sampled = true, .seed = *rc::gen::arbitrary<std::uint32_t>()};
    const RoutingCounts asked = make_routing(scenario, ranks, experts, tokens, top_k, 1);
    const GatedRouting g = capacity_gated(asked, top_k, tokens, factor, padded, parts);
    std::int64_t rows = 0;
    for (std::int32_t r = 0; r < ranks; ++r) rows += row_sum(g.counts, r);
    RC_ASSERT(rows == g.selections - g.dropped + g.padding);
    if (padded) RC_ASSERT(g.counts.is_uniform() && at(g.counts, 0, 0) % parts == 0);
    if (factor == 0) RC_ASSERT(g.dropped == 0);
    if (!padded) RC_ASSERT(g.padding == 0);
  });
}

TEST_CASE("A gate is read strictly") {
  SECTION("each kind has its own keys") {
    CHECK(read("kind: top_k\n") == Gate{});
    CHECK(read("kind: topology\n") == Gate{.kind = GateKind::Topology});
    CHECK(read("{kind: topology, net_over_local: 0.25}\n").net_over_local == 0.25);
    CHECK(read("{kind: capacity, factor: -4, padded: false}\n") ==
          Gate{.kind = GateKind::Capacity, .factor = -4, .is_padded = false});
    CHECK(read("kind: capacity\n").factor == 1.2);
  }
  SECTION("what is wrong") {
    CHECK(error_of([] { return read("{kind: topology, factor: 1.2}\n"); }) ==
          "f:1:18: factor: unknown key; one of kind, net_over_local");
    CHECK(error_of([] { return read("{kind: topology, net_over_local: 0}\n"); }) ==
          "f:1:34: net_over_local: 0 is out of range; expected 1e-06 to 1000000");
    CHECK(error_of([] { return read("kind: gshard\n"); }).find("is not known") != std::string::npos);
  }
  SECTION("written out it reads back") {
    for (const Gate& g : {Gate{}, Gate{.kind = GateKind::Topology, .net_over_local = 0.1},
                          Gate{.kind = GateKind::Capacity, .factor = 0, .is_padded = false}}) {
      CHECK(read(to_yaml(gate_document(g))) == g);
    }
  }
}

TEST_CASE("The network's share of a node's local bandwidth is that of the template") {
  // hgx_h200: 8 NICs of 400 Gb/s, NVSwitch at 450 GB/s a GPU.
  const ClusterSpec hgx = tests::load_cluster(tests::cluster_path("hgx_h200"));
  const auto& machine = std::get<ClusterTemplate>(hgx.machine);
  const double expected =
      8 * machine.fabric->nic_bandwidth.value() / std::get<NvSwitch>(machine.intra_node).bandwidth.value();
  REQUIRE(net_over_local(hgx).has_value());
  CHECK(*net_over_local(hgx) == Approx(expected));
  SECTION("FasterMoE's johnny: 50 Gb/s of InfiniBand a node beside PCIe") {
    const ClusterSpec johnny = tests::load_cluster(tests::cluster_path("fastermoe_johnny"));
    const auto& tree = std::get<PcieTree>(std::get<ClusterTemplate>(johnny.machine).intra_node);
    CHECK(*net_over_local(johnny) == Approx(50e9 / 8 / tree.pcie_bandwidth.value()));
  }
}

}  // namespace moeplan::tests::gate_test
