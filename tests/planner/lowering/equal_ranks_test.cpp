// Simulating one rank, or one node, for all, against simulating every rank.
#include "model/program/equal_ranks.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "model/costs/estimate.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/simulate.hpp"
#include "tests/planner/lowering/link_difference.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::equal_ranks_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

Workload workload() {
  Workload w{};
  w.name = "test";
  w.global_batch = 64;
  w.sequence_length = 512;
  w.mode = Mode::Train;
  w.dtype = Dtype::Bf16;
  w.recompute = Recompute::None;
  w.zero_stage = 1;
  w.capacity_factor = 1.0;
  return w;
}

ModelSpec model() {
  const Moe moe{.num_experts = 16,
                .top_k = 2,
                .expert = {1024, true, false},
                .shared = {},
                .shared_gate = false,
                .router_bias = false};
  ModelSpec m{};
  m.name = "small";
  m.vocab_size = 1024;
  m.hidden_size = 256;
  m.causal = true;
  m.norms_per_layer = 2;
  m.attention = HeadAttention{8, 8, 32, false, false, false};
  m.layers = {{2, {{0, moe}}}};
  return m;
}

}  // namespace

TEST_CASE("One rank simulated for all gives what all ranks simulated give", "[slow]") {
  struct Machine {
    const char* name;
    std::int64_t world;
  };
  int equal = 0, cases = 0;
  for (const Machine machine :
       {Machine{"hgx_h200", 16}, Machine{"hgx_h200", 8}, Machine{"parm_testbed_a", 8}, Machine{"parm_testbed_b", 16},
        Machine{"azure_ndv4", 32}, Machine{"fastermoe_trevor", 16}, Machine{"fastermoe_johnny", 16}}) {
    const Cluster cluster = tests::built_cluster(machine.name, machine.world);
    for (const std::int64_t tp : {1, 2, 4}) {
      for (const std::int64_t esp : {1, 2}) {
        for (const std::int64_t ep : {2, 4, 8}) {
          for (const char* schedule : {"baseline", "parm_s1", "parm_s2", "parm_s2_aas"}) {
            Candidate c;
            c.schedule = schedule;
            c.degrees = {1, machine.world / tp, 1, tp, machine.world / (ep * esp), ep, esp};
            if (ep * esp > machine.world || infeasibility(model(), workload(), c, 1)) continue;
            const Program program = lower_iteration(model(), workload(), c, cluster.ranks_per_node());
            const Timeline one = simulate(program, cluster, {.keep_spans = true});
            const Timeline all = simulate(program, cluster, {.keep_spans = true, .use_symmetry = false});
            INFO(machine.name << " tp " << tp << " ep " << ep << " esp " << esp << " " << schedule);
            ++cases;
            const auto query = symmetry_query(program);
            equal += query && symmetric_view(cluster, *query) ? 1 : 0;
            // 1 ps an operation on the path, or 1e-9.
            const auto makespan = static_cast<double>(all.makespan.picoseconds());
            const double tolerance = std::max(2000.0, 1e-9 * makespan);
            CHECK(std::abs(static_cast<double>((one.makespan - all.makespan).picoseconds())) <= tolerance);
            CHECK(link_difference(one, all) < 1e-9);
            CHECK(one.makespan.seconds() >= estimate(program, cluster).lower_bound * (1 - 1e-12));
          }
        }
      }
    }
  }
  WARN(equal << " of " << cases << " plans have ranks that are provably equal");
  CHECK(equal > cases / 4);
}

TEST_CASE("Experts with unequal loads have equal holders where the loads repeat from holder to holder") {
  // 512 x 4 selections on 12 experts: 171, 171, 170 and so on, three experts a period.
  Workload w = workload();
  w.capacity_factor.reset();
  ModelSpec m = model();
  Moe& moe = std::get<Moe>(m.layers.front().pattern.front().ffn);
  moe.num_experts = 12;
  moe.top_k = 4;
  const Cluster cluster = tests::built_cluster("hgx_h200", 16);
  Candidate c;
  SECTION("one rank represents all, because each has the same sum") {
    for (const std::int64_t ep : {1, 2, 4}) {
      c.degrees = {1, 16, 1, 1, 16 / ep, ep, 1};
      const Program program = lower_iteration(m, w, c, cluster.ranks_per_node());
      REQUIRE_FALSE(program.routings.front().counts.is_uniform());
      REQUIRE(equal_ranks_view(program, cluster) != nullptr);
      const Timeline one = simulate(program, cluster, {.keep_spans = true});
      const Timeline all = simulate(program, cluster, {.keep_spans = true, .use_symmetry = false});
      CHECK(one.makespan.seconds().value() == Approx(all.makespan.seconds().value()).epsilon(1e-6));
      CHECK(link_difference(one, all) < 1e-9);
    }
  }
  SECTION("no rank does where a holder has part of a period") {
    c.degrees = {1, 16, 1, 1, 2, 8, 1};
    CHECK(equal_ranks_view(lower_iteration(m, w, c, cluster.ranks_per_node()), cluster) == nullptr);
  }
}

TEST_CASE("Where experts do not divide, the ranks of a period simulated for all give what all ranks give", "[slow]") {
  struct Case {
    std::int64_t experts, ep, esp, period;  // in holders
  };
  Workload w = workload();
  w.capacity_factor.reset();  // 512 x 2 selections: loads of experts differ, too
  for (const char* machine : {"hgx_h200", "fastermoe_trevor"}) {
    const Cluster cluster = tests::built_cluster(machine, 16);
    for (const Case& of : {Case{12, 8, 1, 2}, Case{20, 16, 1, 4}, Case{12, 8, 2, 2}, Case{6, 4, 1, 2}, Case{6, 4, 2, 2},
                           Case{4, 16, 1, 4}, Case{10, 4, 4, 2}}) {
      ModelSpec m = model();
      std::get<Moe>(m.layers.front().pattern.front().ffn).num_experts = of.experts;
      for (const auto& schedule : schedules()) {
        for (const auto& all_to_all : all_to_alls()) {
          Candidate c;
          c.degrees = {1, 16 / of.esp, 1, of.esp, 16 / (of.ep * of.esp), of.ep, of.esp};
          c.schedule = schedule->name();
          c.all_to_all = all_to_all->name();
          if (infeasibility(m, w, c, cluster.ranks_per_node())) continue;
          CAPTURE(machine, of.experts, of.ep, of.esp, schedule->name(), all_to_all->name());
          const Program program = lower_iteration(m, w, c, cluster.ranks_per_node());
          const SymmetricView* view = representatives_view(program, cluster);
          if (c.all_to_all->name() == "linear" && c.schedule->name() == "baseline" && cluster.name == "hgx_h200") {
            REQUIRE(view);
            CHECK(view->representatives == of.period * of.esp);
          }
          const Timeline some = simulate(program, cluster, {.keep_spans = true});
          const Timeline all = simulate(program, cluster, {.keep_spans = true, .use_symmetry = false});
          const auto makespan = static_cast<double>(all.makespan.picoseconds());
          const double tolerance = std::max(2000.0, 1e-9 * makespan);
          CHECK(std::abs(static_cast<double>((some.makespan - all.makespan).picoseconds())) <= tolerance);
          CHECK(link_difference(some, all) < 1e-9);
        }
      }
    }
  }
}

TEST_CASE("One node simulated for all gives what all nodes simulated give", "[slow]") {
  const ModelSpec spec = model();
  const Moe& moe = std::get<Moe>(spec.layers.front().pattern.front().ffn);
  int seen = 0, represented = 0;
  for (const char* name : {"parm_testbed_b", "fastermoe_trevor"}) {
    for (const auto& schedule : schedules()) {
      for (const auto& all_to_all : all_to_alls()) {
        const std::int64_t world = all_to_all->name() == "3dh" ? 16 : 8;
        const Cluster cluster = tests::built_cluster(name, world);
        for (const Degrees degrees :
             {Degrees{.dp = world, .ep = world}, Degrees{.dp = world / 2, .tp = 2, .ep = world / 2, .esp = 2},
              Degrees{.dp = world, .edp = 2, .ep = world / 2}}) {
          for (const std::int64_t chunks : {1, 2}) {
            Candidate c;
            c.degrees = degrees;
            c.schedule = schedule->name();
            c.all_to_all = all_to_all->name();
            c.pipeline_degree = chunks;
            if (infeasibility(spec, workload(), c, cluster.ranks_per_node())) continue;
            const Program program = lower_moe_layer(moe, 256, 512, workload(), c, cluster.ranks_per_node());
            const Timeline one = simulate(program, cluster);
            const Timeline all = simulate(program, cluster, {.use_symmetry = false});
            INFO(name << " ep " << degrees.ep << " esp " << degrees.esp << " " << c.schedule.name() << " "
                      << c.all_to_all.name() << " chunks " << chunks);
            ++seen;
            const SymmetricView* view = representatives_view(program, cluster);
            represented += view && view->representatives == 4 ? 1 : 0;
            const auto makespan = static_cast<double>(all.makespan.picoseconds());
            CHECK(std::abs(static_cast<double>((one.makespan - all.makespan).picoseconds())) <=
                  std::max(200.0, 1e-9 * makespan));
            CHECK(link_difference(one, all) < 1e-9);
            CHECK(one.makespan.seconds() >= estimate(program, cluster).lower_bound * (1 - 1e-12));
          }
        }
      }
    }
  }
  WARN(represented << " of " << seen << " layers have one node that represents all");
  CHECK(represented == seen);
}

TEST_CASE("Ranks differ where something differs") {
  const Workload uniform = workload();
  Candidate c;
  c.degrees = {1, 16, 1, 1, 2, 8, 1};
  SECTION("equal data on equal nodes has a view") {
    const Cluster cluster = tests::built_cluster("hgx_h200", 16);
    const auto query = symmetry_query(lower_iteration(model(), uniform, c, cluster.ranks_per_node()));
    REQUIRE(query);
    CHECK(symmetric_view(cluster, *query) != nullptr);
  }
  SECTION("routing drawn source by source has none, because counts differ") {
    Workload skewed = uniform;
    skewed.capacity_factor.reset();
    skewed.routing.shape = RoutingShape::Zipf;
    skewed.routing.sampled = true;
    CHECK_FALSE(symmetry_query(lower_iteration(model(), skewed, c, 8)));
  }
  SECTION("popular experts differ inside their group: a node represents all if it has the whole group") {
    Workload skewed = uniform;
    skewed.capacity_factor.reset();
    skewed.routing.shape = RoutingShape::Zipf;
    const Cluster cluster = tests::built_cluster("hgx_h200", 16);
    const Program inside = lower_iteration(model(), skewed, c, cluster.ranks_per_node());
    const SymmetricView* view = representatives_view(inside, cluster);
    REQUIRE(view);
    CHECK(view->representatives == 8);
    const Timeline one = simulate(inside, cluster), all = simulate(inside, cluster, {.use_symmetry = false});
    CHECK(one.makespan.seconds().value() == Approx(all.makespan.seconds().value()).epsilon(1e-9));
    CHECK(link_difference(one, all) < 1e-9);
    c.degrees = {1, 16, 1, 1, 1, 16, 1};
    CHECK(representatives_view(lower_iteration(model(), skewed, c, cluster.ranks_per_node()), cluster) == nullptr);
  }
  SECTION("one slower NIC has none, because its node is no image of another") {
    Cluster cluster = tests::built_cluster("hgx_h200", 16);
    for (Link& link : cluster.topology.links) {
      if (link.tier == LinkTier::Nic) {
        link.bandwidth = link.bandwidth / 2;
        break;
      }
    }
    const auto query = symmetry_query(lower_iteration(model(), uniform, c, 8));
    REQUIRE(query);
    CHECK(symmetric_view(cluster, *query) == nullptr);
  }
  SECTION("an NVLink mesh of unequal links has the ranks of a node, because nodes are alike") {
    const Cluster cluster = tests::built_cluster("fastermoe_trevor", 16);
    const Program program = lower_iteration(model(), uniform, c, cluster.ranks_per_node());
    const SymmetricView* view = representatives_view(program, cluster);
    REQUIRE(view);
    CHECK(view->representatives == 4);
    CHECK(equal_ranks_view(program, cluster) == nullptr);
  }
}

TEST_CASE("A ring through whole nodes uses every member's way out once") {
  SECTION("two nodes of four: along to the next in the node, across to the next in the next node") {
    CHECK(ring_edges(0, 8, 4).along == 1);
    CHECK(ring_edges(0, 8, 4).across == 5);
    CHECK(ring_edges(3, 8, 4).along == 0);
    CHECK(ring_edges(3, 8, 4).across == 4);
    CHECK(ring_edges(7, 8, 4).across == 0);
  }
  SECTION("one node, or one member a node: the plain ring") {
    CHECK(ring_edges(7, 8, 8).along == 0);
    CHECK(ring_edges(7, 8, 8).across == 7);
    CHECK(ring_edges(2, 4, 1).along == 3);
  }
}

}  // namespace moeplan::tests::equal_ranks_test
