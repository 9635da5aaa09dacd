// One rank simulated for all, against all of them, on random Programs.
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/program/equal_ranks.hpp"
#include "sim/simulate.hpp"
#include "tests/model/spec_files.hpp"
#include "tests/sim/random_programs.hpp"

using namespace moeplan;

namespace {

Cluster machine(std::int64_t nodes, bool rails) {
  const std::string fabric = rails ? "kind: rail_optimised, nics_per_node: 4, nodes_per_leaf: 2, oversubscription: 2"
                                   : "kind: single_switch, nics_per_node: 1";
  return build_cluster(test::cluster_from("template:\n  nodes: 1\n  gpus_per_node: 4\n"
                                          "  intra_node: {kind: nvswitch, bandwidth: 100 GB/s, latency: 0.5 us}\n"
                                          "  fabric: {" +
                                          fabric + ", nic_bandwidth: 100 Gbps, latency: 1 us}"),
                       4 * nodes);
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

}  // namespace

TEST_CASE("random programs give the same timeline with equal ranks simulated once and one by one") {
  std::int64_t seen = 0, equal = 0;
  CHECK(rc::check("within 1 ps an operation, or 1e-9", [&] {
    const std::int64_t nodes = *rc::gen::element<std::int64_t>(1, 2, 4);
    const Cluster cluster = machine(nodes, *rc::gen::arbitrary<bool>());
    const Program p = test::random_program(4 * nodes, false, cluster.ranks_per_node());
    ++seen;
    equal += equal_ranks_view(p, cluster) ? 1 : 0;
    const auto operations = static_cast<double>(test::operations_of(p));
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
  }));
  // Else this would compare a simulation with itself.
  CHECK(equal > seen / 2);
}
