// A few ranks simulated for all, against all of them, on random Programs.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/analysis/analysis.hpp"
#include "model/costs/estimate.hpp"
#include "model/program/equal_ranks.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/random_programs.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::symmetry_test {

using namespace moeplan::sim;

namespace {

Cluster machine(std::int64_t nodes, const std::string& inside, const std::string& fabric) {
  return build_cluster(tests::cluster_from("template:\n  nodes: 1\n  gpus_per_node: 4\n  intra_node: {" + inside +
                                           "}\n  fabric: {" + fabric + ", nic_bandwidth: 100 Gbps, latency: 1 us}"),
                       4 * nodes);
}

/// No rank can be told from another, as long as links of the core do not tell where a ring crosses them.
Cluster equal_machine(std::int64_t nodes, bool rails) {
  return machine(nodes, "kind: nvswitch, bandwidth: 100 GB/s, latency: 0.5 us",
                 rails ? "kind: rail_optimised, nics_per_node: 4, nodes_per_leaf: 2, oversubscription: 2"
                       : "kind: single_switch, nics_per_node: 1");
}

/// Ranks of a node are not alike: trees of PCIe whose NIC hangs on one side, NVLinks of unequal speed.
Cluster unequal_machine(std::int64_t nodes) {
  const std::string tree = "pcie_bandwidth: 16 GB/s, inter_bridge_bandwidth: 21 GB/s, latency: 0.3 us";
  const std::string inside = *rc::gen::element<std::string>(
      "kind: pcie_tree, gpus_per_switch: 0, switches_per_bridge: 2, " + tree,
      "kind: pcie_tree, gpus_per_switch: 1, switches_per_bridge: 2, " + tree,
      "kind: pcie_tree, gpus_per_switch: 2, switches_per_bridge: 1, " + tree,
      "kind: nvlink_mesh, latency: 0.7 us, pcie: {gpus_per_switch: 2, switches_per_bridge: 1, " + tree +
          "}, links: [{a: 0, b: 1, bandwidth: 50 GB/s}, {a: 1, b: 2, bandwidth: 25 GB/s}, {a: 2, b: 3, bandwidth: 10 "
          "GB/s}]");
  Cluster c = machine(
      nodes, inside,
      *rc::gen::element<std::string>("kind: single_switch, nics_per_node: 1", "kind: single_switch, nics_per_node: 2",
                                     "kind: rail_optimised, nics_per_node: 2, nodes_per_leaf: 2, oversubscription: 1",
                                     "kind: rail_optimised, nics_per_node: 1, nodes_per_leaf: 2, oversubscription: 2",
                                     "kind: dragonfly, nics_per_node: 1, nodes_per_leaf: 2, oversubscription: 2"));
  c.gpu.slowdown_beside_communication = tests::pick(0, 1) == 0 ? 1.0 : 1.15;
  c.gpu.slowdown_beside_computation = tests::pick(0, 1) == 0 ? 1.0 : 1.25;
  if (tests::pick(0, 1) == 0) {
    c.collectives[{Collective::AllToAll, Span::InterNode}] = {Seconds(2e-5), SecondsPerByte(3.06e-10)};
    c.collectives[{Collective::AllGather, Span::IntraNode}] = {Seconds(1e-5), SecondsPerByte(1.68e-10)};
  }
  return c;
}

/// Operations in which ranks of a node are told apart by their places, and rings and exchanges between nodes.
void add_operations(Program& p) {
  const auto group = [&](const std::string& name, std::int64_t size, std::int64_t stride) {
    p.groups.push_back({name, size, stride});
    return GroupId(p.groups.size() - 1);
  };
  const GroupId node = group("node", 4, 1), half = group("half", 2, 1), apart = group("apart", 2, 2);
  const GroupId across = group("across", p.world_size / 4, 4);
  for (Block& block : p.blocks) {
    const std::int64_t more = tests::pick(0, 4);
    for (std::int64_t i = 0; i < more; ++i) {
      const auto stream = static_cast<Stream>(tests::pick(0, 3));
      std::vector<std::int32_t> after;
      if (!block.operations.empty() && tests::pick(0, 1) == 0) {
        after.push_back(static_cast<std::int32_t>(tests::pick(0, std::ssize(block.operations) - 1)));
      }
      if (tests::pick(0, 3) == 0) {  // the first of the node has the rows of all
        Operation k = tests::kernel_of(p, 1, stream, after);
        k.reads.front().rows = Rows::routed(RoutingId(0), Rows::Experts::Local,
                                            {{RowStep::Kind::Leader, node}, {RowStep::Kind::Union, node}});
        block.operations.push_back(std::move(k));
        continue;
      }
      const auto kind = static_cast<Collective>(tests::pick(0, 4));
      const bool inside = tests::pick(0, 1) == 0;
      const GroupId id = inside ? *rc::gen::element(node, half, apart) : across;
      if (!inside && kind == Collective::Broadcast) continue;  // its root is like no other
      const std::int64_t bytes = tests::pick(0, 100'000) * (inside ? 1 : p.world_size);
      Operation c = tests::collective_of(p, kind, id, bytes, stream, after);
      auto& communication = std::get<Communication>(c.work);
      if (inside && tests::pick(0, 1) == 0 && (kind == Collective::AllReduce || kind == Collective::Broadcast)) {
        communication.pattern = Pattern::Tree;
      }
      const std::int64_t size = p.group(id).size;
      if (kind == Collective::AllToAll && size > 1 && tests::pick(0, 1) == 0) {
        communication.of = size;
        communication.first = tests::pick(0, size - 1);
        communication.count = tests::pick(1, size - communication.first);
        communication.paired = size != 3 && tests::pick(0, 1) == 0;  // powers of two
      }
      block.operations.push_back(std::move(c));
    }
  }
}

/// Spans of every rank: those recorded, and copies of them for the ranks that they hold for.
std::vector<TimelineSpan> by_rank(Timeline t, std::int64_t world) {
  const std::vector<TimelineSpan> recorded = t.spans;
  for (std::int32_t r = 0; r < world; ++r) {
    if (t.recorded(RankId(r)) == RankId(r)) continue;
    for (TimelineSpan s : recorded) {
      if (s.rank != t.recorded(RankId(r))) continue;
      s.rank = RankId(r);
      t.spans.push_back(s);
    }
  }
  std::stable_sort(t.spans.begin(), t.spans.end(), [](const TimelineSpan& a, const TimelineSpan& b) {
    return std::tuple(a.rank, a.block, a.operation) < std::tuple(b.rank, b.block, b.operation);
  });
  return t.spans;
}

/// Makespan, links and the spans of every rank, with and without representatives.
void check_simulations(const Program& p, const Cluster& cluster) {
  const auto operations = static_cast<double>(tests::operations_of(p));
  const auto close = [&](SimTime a, SimTime b) {
    const auto difference = static_cast<double>((a - b).picoseconds());
    return std::abs(difference) <= std::max(operations, 1e-9 * static_cast<double>(b.picoseconds()));
  };
  const Timeline one = simulate(p, cluster), all = simulate(p, cluster, {.use_symmetry = false});
  RC_ASSERT(close(one.makespan, all.makespan));
  RC_ASSERT(one.links.size() == all.links.size());
  for (std::size_t i = 0; i < one.links.size(); ++i) {
    RC_ASSERT(one.links[i].link == all.links[i].link);
    RC_ASSERT(std::abs(one.links[i].bytes - all.links[i].bytes) <= 1e-9 * all.links[i].bytes);
  }
  const auto a = by_rank(simulate(p, cluster, {.skip_repeats = false}), p.world_size);
  const auto b = by_rank(simulate(p, cluster, {.skip_repeats = false, .use_symmetry = false}), p.world_size);
  RC_ASSERT(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    RC_ASSERT(std::tuple(a[i].rank, a[i].block, a[i].operation) == std::tuple(b[i].rank, b[i].block, b[i].operation));
    RC_ASSERT(close(a[i].start, b[i].start));
    RC_ASSERT(close(a[i].end, b[i].end));
  }
}

}  // namespace

TEST_CASE("random programs give the same timeline with equal ranks simulated once and one by one") {
  std::int64_t seen = 0, equal = 0;
  CHECK(rc::check("within 1 ps an operation, or 1e-9", [&] {
    const std::int64_t nodes = *rc::gen::element<std::int64_t>(1, 2, 4);
    const Cluster cluster = equal_machine(nodes, *rc::gen::arbitrary<bool>());
    const Program p = tests::random_program(4 * nodes, false, cluster.ranks_per_node());
    ++seen;
    equal += equal_ranks_view(p, cluster) ? 1 : 0;
    check_simulations(p, cluster);
  }));
  // Else this would compare a simulation with itself.
  CHECK(equal > seen / 2);
}

TEST_CASE("random programs give the same timeline with one node simulated for all and with all nodes") {
  std::int64_t seen = 0, represented = 0, several = 0;
  CHECK(rc::check("within 1 ps an operation, or 1e-9", [&] {
    const std::int64_t nodes = *rc::gen::element<std::int64_t>(2, 3, 4);
    Cluster cluster = unequal_machine(nodes);
    Program p = tests::random_program(4 * nodes, false, cluster.ranks_per_node());
    add_operations(p);
    ++seen;
    const SymmetricView* view = representatives_view(p, cluster);
    represented += view ? 1 : 0;
    several += view && view->representatives > 1 ? 1 : 0;
    check_simulations(p, cluster);
    const Estimate one = estimate(p, cluster);
    RC_ASSERT(one.lower_bound.value() <= simulate(p, cluster).makespan.seconds().value() * (1 + 1e-12));
    cluster.natural_boundaries.clear();  // no symmetry is looked for
    cluster.symmetries = SymmetryCache();
    const Estimate all = estimate(p, cluster);
    RC_ASSERT(std::abs(one.closed_form.value() - all.closed_form.value()) <= 1e-9 * all.closed_form.value());
    RC_ASSERT(one.lower_bound.value() >= all.lower_bound.value() * (1 - 1e-9));
  }));
  // Else this would compare a simulation with itself.
  CHECK(represented > seen / 2);
  CHECK(several > seen / 2);
}

TEST_CASE("One rank represents all in rings with equal blocks, however these are divided among the rings") {
  const Cluster cluster = tests::built_cluster("hgx_h200", 16);
  Program p = tests::one_block(16, {{"all", 16, 1}, {"node", 8, 1}});
  p.ranks_per_node = cluster.ranks_per_node();
  const auto representatives = [&](int group, std::int64_t bytes) -> std::int64_t {
    p.blocks.front().operations = {tests::collective_of(p, Collective::ReduceScatter, GroupId(group), bytes)};
    const SymmetricView* view = representatives_view(p, cluster);
    return view ? view->representatives : 16;
  };
  SECTION("each of the eight rings carries an equal part of a block, rounded up") {
    CHECK(representatives(0, 16 * 16) == 1);
    CHECK(representatives(0, 16 * 1'000'005) == 1);
    check_simulations(p, cluster);
  }
  SECTION("all ranks differ where the blocks do") { CHECK(representatives(0, 16 * 16 + 1) == 16); }
  SECTION("a group inside a node has one ring, which carries whole blocks") {
    CHECK(representatives(1, 8 * 1'000'005) == 1);
    check_simulations(p, cluster);
  }
}

TEST_CASE("Nodes that are alike are simulated through one of them") {
  // Two GPUs on each of two bridges, the node's NIC on the first: 0 and 1 are nearer to it than 2 and 3.
  const Cluster cluster =
      machine(4,
              "kind: pcie_tree, gpus_per_switch: 0, switches_per_bridge: 2, pcie_bandwidth: 16 GB/s, "
              "inter_bridge_bandwidth: 21 GB/s, latency: 0.5 us",
              "kind: single_switch, nics_per_node: 1");
  Program p = tests::one_block(16, {{"all", 16, 1}, {"node", 4, 1}, {"across", 4, 4}});
  const auto view_of = [&](Collective collective, int group, std::int64_t n) {
    p.blocks.front().operations = {tests::collective_of(p, collective, GroupId(group), n)};
    return representatives_view(p, cluster);
  };
  SECTION("an all-to-all has 4 representatives, the ranks of a node, because its GPUs differ") {
    const SymmetricView* view = view_of(Collective::AllToAll, 0, 1600);
    REQUIRE(view);
    CHECK(view->representatives == 4);
    CHECK(equal_ranks_view(p, cluster) == nullptr);
  }
  SECTION("the NICs are one orbit, of which each of 4 images has 12.5 GB/s") {
    const SymmetricView* view = view_of(Collective::AllToAll, 0, 1600);
    REQUIRE(view);
    const auto nic = std::find_if(cluster.topology.links.begin(), cluster.topology.links.end(),
                                  [](const Link& l) { return l.tier == LinkTier::Nic; });
    const auto orbit = view->orbit_of(LinkId(static_cast<std::size_t>(nic - cluster.topology.links.begin())));
    CHECK(std::count(view->orbits->begin(), view->orbits->end(), orbit) == 4);
    CHECK(view->capacity[static_cast<std::size_t>(orbit)] == Approx(4 * nic->bandwidth.value() / 4));
    CHECK(view->bytes_per_link[static_cast<std::size_t>(orbit)] == Approx(1));
  }
  SECTION("a broadcast inside nodes has the view too, because its root is one of the representatives") {
    const SymmetricView* view = view_of(Collective::Broadcast, 1, 1000);
    REQUIRE(view);
    CHECK(view->representatives == 4);
  }
  SECTION("a broadcast across nodes has none, because its root is in one node") {
    CHECK(view_of(Collective::Broadcast, 2, 1000) == nullptr);
  }
  SECTION("the timeline records the first node, and each of its ranks stands for those at its place") {
    REQUIRE(view_of(Collective::AllToAll, 0, 1600));
    const Timeline t = simulate(p, cluster);
    CHECK(t.recorded_ranks(16) == 4);
    CHECK(t.recorded(RankId(14)) == RankId(2));
    CHECK(t.place(RankId(14)) == 2);
    CHECK(t.recorded_at(2) == RankId(2));
    CHECK(rank_times(p, t).size() == 4);
  }
}

}  // namespace moeplan::tests::symmetry_test
