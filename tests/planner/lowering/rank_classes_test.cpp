// Simulating one rank of each class against simulating every rank.
#include "sim/flows/rank_classes.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "planner/layer/all_to_all.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/simulate.hpp"
#include "tests/planner/lowering/link_difference.hpp"
#include "tests/support/small_layers.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::rank_classes_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

Workload workload() {
  Workload w = small_layers::workload(/*capacity_factor=*/{});
  w.global_batch = 48;
  w.sequence_length = 512;
  w.dtype = Dtype::Bf16;
  w.zero_stage = 1;
  return w;
}

/// Twelve heads, which three ranks divide.
ModelSpec model(std::int64_t experts) {
  ModelSpec m = small_layers::model(1024, {{2, {{0, small_layers::moe(experts, /*gated=*/true)}}}});
  m.attention = HeadAttention{12, 12, 20, false, false, false};
  m.hidden_size = 240;
  return m;
}

struct Timed {
  std::int32_t block, operation;
  SimTime start, end;
};

/// What a rank does, in order.
std::vector<Timed> operations_of(const Timeline& timeline, RankId rank) {
  std::vector<Timed> out;
  for (const TimelineSpan& s : timeline.spans) {
    if (s.rank == timeline.recorded(rank)) out.push_back({s.block.value(), s.operation, s.start, s.end});
  }
  std::sort(out.begin(), out.end(), [](const Timed& a, const Timed& b) {
    return std::tie(a.block, a.operation, a.start) < std::tie(b.block, b.operation, b.start);
  });
  return out;
}

std::int64_t apart(SimTime a, SimTime b) { return std::abs((a - b).picoseconds()); }

/// The largest difference of any time on any rank, in picoseconds; -1 if ranks do other operations.
std::int64_t largest_difference(const Timeline& some, const Timeline& all, std::int64_t world) {
  std::int64_t most = apart(some.makespan, all.makespan);
  for (std::int64_t r = 0; r < world; ++r) {
    const RankId rank(static_cast<std::int32_t>(r));
    const std::vector<Timed> a = operations_of(some, rank), b = operations_of(all, rank);
    if (a.size() != b.size()) return -1;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i].block != b[i].block || a[i].operation != b[i].operation) return -1;
      most = std::max({most, apart(a[i].start, b[i].start), apart(a[i].end, b[i].end)});
    }
  }
  return most;
}

/// Checks that both simulations agree on every rank; returns the number of simulated ranks.
std::int64_t compare(const Program& program, const Cluster& cluster) {
  const Timeline some = simulate(program, cluster, {.skip_repeats = false});
  const Timeline all = simulate(program, cluster, {.skip_repeats = false, .use_symmetry = false});
  const std::int64_t difference = largest_difference(some, all, program.world_size);
  CHECK(difference >= 0);
  CHECK(static_cast<double>(difference) <= std::max(2000.0, 1e-9 * static_cast<double>(all.makespan.picoseconds())));
  CHECK(link_difference(some, all) < 1e-9);
  const Timeline skipping = simulate(program, cluster);
  CHECK(static_cast<double>(apart(skipping.makespan, all.makespan)) <=
        std::max(2000.0, 1e-9 * static_cast<double>(all.makespan.picoseconds())));
  return static_cast<std::int64_t>(some.recorded_ranks(program.world_size));
}

}  // namespace

TEST_CASE("One rank of each class does what all of its ranks do", "[slow]") {
  std::int64_t feasible = 0, cases = 0, with_classes = 0, ranks = 0, simulated = 0;
  for (const char* machine : {"hgx_h200", "fastermoe_trevor", "parm_testbed_b"}) {
    const Cluster cluster = tests::built_cluster(machine, 24);
    for (const std::int64_t experts : {24, 20, 10}) {
      for (const Degrees degrees :
           {Degrees{.dp = 24, .edp = 2, .ep = 12}, Degrees{.dp = 24, .edp = 4, .ep = 6}, Degrees{.dp = 24, .ep = 24},
            Degrees{.dp = 12, .tp = 2, .edp = 2, .ep = 6, .esp = 2}, Degrees{.dp = 8, .tp = 3, .edp = 2, .ep = 12},
            Degrees{.dp = 24, .edp = 8, .ep = 3}}) {
        for (const auto& schedule : schedules()) {
          for (const auto& all_to_all : all_to_alls()) {
            Candidate c;
            c.degrees = degrees;
            c.schedule = schedule->name();
            c.all_to_all = all_to_all->name();
            const ModelSpec m = model(experts);
            if (infeasibility(m, workload(), c, cluster.ranks_per_node())) continue;
            if (feasible++ % 5 != 0) continue;  // a fifth of them
            CAPTURE(machine, experts, degrees.tp, degrees.ep, degrees.esp, schedule->name(), all_to_all->name());
            const Program program = lower_iteration(m, workload(), c, cluster.ranks_per_node());
            const auto view = simulated_view(program, cluster);
            ++cases;
            if (!view || view->class_of.empty()) continue;
            ++with_classes;
            ranks += program.world_size;
            simulated += compare(program, cluster);
          }
        }
      }
    }
  }
  WARN(with_classes << " of " << cases << " programs have classes; simulated " << simulated << " of " << ranks
                    << " ranks");
  CHECK(with_classes > cases / 8);
  CHECK(simulated < ranks / 2);
}

TEST_CASE("A slower link divides ranks into few classes") {
  Cluster cluster = tests::built_cluster("hgx_h200", 16);
  const auto nic = std::find_if(cluster.topology.links.begin(), cluster.topology.links.end(),
                                [](const Link& l) { return l.tier == LinkTier::Nic; });
  nic->bandwidth = nic->bandwidth / 2;
  Candidate c;
  c.degrees = {.dp = 16, .ep = 16};
  const ModelSpec m = model(16);
  const Moe& moe = std::get<Moe>(m.layers.front().pattern.front().ffn);
  const Program program = lower_moe_layer(moe, m.hidden_size, 512, workload(), c, cluster.ranks_per_node());
  // The rank with that link, the others of its node and of its rail, and all others.
  const std::int64_t simulated = compare(program, cluster);
  CHECK(simulated > 1);
  CHECK(simulated <= 4);
}

TEST_CASE("A layer of 256 experts on 72 ranks has two classes of ranks") {
  const Cluster cluster = tests::built_cluster("gb200_nvl72", 72);
  Candidate c;
  c.degrees = {.dp = 72, .ep = 72};
  const ModelSpec m = model(256);
  const Moe& moe = std::get<Moe>(m.layers.front().pattern.front().ffn);
  const Program program = lower_moe_layer(moe, m.hidden_size, 512, workload(), c, cluster.ranks_per_node());
  const auto view = simulated_view(program, cluster);
  REQUIRE(view);
  CHECK(view->representatives == 2);
  CHECK(view->weight(0) + view->weight(1) == 72);
  CHECK(compare(program, cluster) == 2);
}

TEST_CASE("Ranks that all differ have no classes") {
  Workload skewed = workload();
  skewed.routing.shape = RoutingShape::Zipf;
  skewed.routing.sampled = true;
  const Cluster cluster = tests::built_cluster("hgx_h200", 16);
  Candidate c;
  c.degrees = {.dp = 16, .ep = 16};
  CHECK(simulated_view(lower_iteration(model(16), skewed, c, cluster.ranks_per_node()), cluster) == nullptr);
}

}  // namespace moeplan::tests::rank_classes_test
