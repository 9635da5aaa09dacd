#include "planner/lowering/lower.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "model/costs/estimate.hpp"
#include "model/costs/memory.hpp"
#include "model/program/resolve.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/blocks/gated_routing.hpp"
#include "planner/lowering/feasibility.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/layer_cases.hpp"
#include "tests/support/small_layers.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::lower_test {

using namespace moeplan::sim;
using namespace moeplan::planner;
using namespace small_layers;

namespace {

/// Of a block: the sum over all operations of a name on a rank.
template <class Value>
double sum(const Program& p, std::size_t block, const std::string& name, Value value) {
  double total = 0;
  for (const Operation& op : p.blocks[block].operations) {
    if (op.name == name) total += static_cast<double>(value(op));
  }
  return total;
}

double message(const Program& p, std::size_t block, const std::string& name, std::int32_t rank = 0) {
  return sum(p, block, name, [&](const Operation& op) { return message_size(p, op, RankId(rank)); });
}

double expert_flops(const Program& p, std::size_t block, std::int32_t rank) {
  double flops = 0;
  for (const Operation& op : p.blocks[block].operations) {
    if (op.op_class == OpClass::Expert) flops += compute_load(p, op, RankId(rank)).flops;
  }
  return flops;
}

bool runs(const Schedule& schedule, const Degrees& degrees) { return !schedule.infeasibility(degrees, {}); }

}  // namespace

TEST_CASE("exchanges move Parm's message sizes") {
  // T = k f tokens / E is whole and a multiple of N_MP: nothing is rounded.
  constexpr std::int64_t kTokens = 64, kWorld = 8, kExperts = 4;
  constexpr double kF = 2;
  const double blm = kTokens * kM * 4, x = 2 * kF * blm;
  for (const std::int64_t tp : {1, 2, 4}) {
    for (const auto& [ep, esp] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{4, 1}, {4, 2}, {2, 2}, {2, 4}, {1, 4}}) {
      CAPTURE(tp, ep, esp);
      const double mp = static_cast<double>(tp), shards = static_cast<double>(esp), y = x * shards / mp;
      const auto lowered = [&](const std::string& schedule) {
        return lower_moe_layer(moe(kExperts), kM, kTokens, workload(kF), candidate(schedule, kWorld, tp, ep, esp), 1);
      };
      SECTION("baseline: x N_ESP each way, BLM N_ESP gathered, x N_ESP reduced" +
              std::to_string(tp * 100 + ep * 10 + esp)) {
        const Program p = lowered("baseline");
        for (const std::size_t block : {0U, 1U}) {
          CHECK(message(p, block, "dispatch") == x * shards);
          CHECK(message(p, block, "combine") == x * shards);
          CHECK(message(p, block, "all-gather") == (esp > 1 ? blm * shards : 0));
        }
        // What an EP rank holds after dispatch is what N_EP peers sent for its experts: x N_ESP again.
        CHECK(message(p, 0, "expert all-reduce") == (esp > 1 ? x * shards : 0));
        CHECK(message(p, 1, "reduce-scatter") == (esp > 1 ? blm * shards : 0));
      }
      SECTION("S1: y each way, BLM gathered" + std::to_string(tp * 100 + ep * 10 + esp)) {
        const Program p = lowered("parm_s1");
        for (const std::size_t block : {0U, 1U}) {
          CHECK(message(p, block, "dispatch") == y);
          CHECK(message(p, block, "combine") == y);
          CHECK(message(p, block, "all-gather") == (tp > 1 ? blm : 0));
        }
      }
      if (tp == 1) continue;
      for (const std::string schedule : {"parm_s2", "parm_s2_aas"}) {
        SECTION(schedule + ": y each way, ETM gathered, whatever the phases" +
                std::to_string(tp * 100 + ep * 10 + esp)) {
          const Program p = lowered(schedule);
          for (const std::size_t block : {0U, 1U}) {
            for (const std::int32_t rank : {0, 3, 7}) {
              CHECK(message(p, block, "dispatch", rank) == y);
              CHECK(message(p, block, "combine", rank) == y);
              CHECK(message(p, block, "all-gather", rank) == x);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("the expert part costs 4 M H FLOPs a row forward and twice that backward, 6 M H where it is gated") {
  constexpr std::int64_t kTokens = 64, kWorld = 8;
  for (const bool gated : {false, true}) {
    for (const auto& schedule : schedules()) {
      for (const auto& [tp, ep, esp] :
           std::vector<std::tuple<int, int, int>>{{2, 4, 2}, {4, 2, 2}, {2, 8, 1}, {1, 2, 4}}) {
        const Candidate c = candidate(std::string(schedule->name()), kWorld, tp, ep, esp);
        if (!runs(*schedule, c.degrees)) continue;
        const Program p = lower_moe_layer(moe(8, gated), kM, kTokens, workload(2.0), c, 1);
        CAPTURE(schedule->name(), gated, tp, ep, esp);
        // Each MP group dispatches k f tokens rows; without tensor parallelism of its own, from each of its ranks.
        const double copies = splits_tokens(*schedule) ? tp : 1;
        const double all_rows = 2 * 2.0 * kTokens * kWorld / copies / static_cast<double>(c.degrees.edp);
        const double rows = all_rows / ep;  // of one expert-parallel position, on each of its shards
        const double forward = (gated ? 6.0 : 4.0) * kM * kH * rows / esp;
        for (const std::int32_t rank : {0, 5}) {
          CHECK(expert_flops(p, 0, rank) == forward);
          CHECK(expert_flops(p, 1, rank) == 2 * forward);
        }
      }
    }
  }
}

TEST_CASE("every schedule lowers, runs and keeps the layer's rows") {
  const Cluster cluster = tests::toy_cluster(2, 4);
  for (const auto& schedule : schedules()) {
    for (const std::optional<double> f : {std::optional<double>(1.2), std::optional<double>()}) {
      for (const std::int64_t experts : {8, 7, 5}) {  // 7 and 5 do not divide by the ranks
        for (const Mode mode : {Mode::Train, Mode::Forward}) {
          for (const auto& [tp, ep, esp] :
               std::vector<std::tuple<int, int, int>>{{1, 4, 2}, {2, 4, 1}, {4, 2, 2}, {2, 1, 4}}) {
            const Candidate c = candidate(std::string(schedule->name()), 8, tp, ep, esp);
            if (!runs(*schedule, c.degrees)) continue;
            CAPTURE(schedule->name(), f.has_value(), experts, tp, ep, esp);
            Workload w = workload(f, mode);
            w.routing = {.shape = RoutingShape::Zipf};
            const Program p = lower_moe_layer(moe(experts), kM, 60, w, c, 1);
            REQUIRE(p.blocks.size() == (mode == Mode::Train ? 2U : 1U));
            if (mode == Mode::Train) CHECK(p.blocks[1].backward_of == BlockId(0));
            // The baseline's ESP-Split is local: it leaves its shard's rows inside the gathered ones.
            const auto writes = [&](std::size_t block, const std::string& name, std::int64_t rows) {
              for (const Operation& op : p.blocks[block].operations) {
                for (const Slice& s : op.writes) {
                  if (p.buffer(s.buffer).name == name && row_count(p, s.rows, RankId(3)) == rows) return true;
                }
              }
              return false;
            };
            const bool split = !splits_tokens(*schedule) && !schedule->name().starts_with("tutel_") && esp > 1;
            CHECK(writes(0, "moe.out", split ? 60 * esp : 60));
            if (mode == Mode::Train) CHECK(writes(1, "d.ffn.in", 60));
            const Timeline t = simulate(p, cluster);
            CHECK(t.makespan.seconds() >= estimate(p, cluster).lower_bound * (1 - 1e-9));
          }
        }
      }
    }
  }
}

TEST_CASE("what is dispatched is what the experts receive, and what they send is what comes back") {
  for (const auto& schedule : schedules()) {
    for (const std::optional<double> f : {std::optional<double>(1.2), std::optional<double>()}) {
      for (const std::int64_t experts : {8, 7}) {
        for (const auto& [tp, ep, esp] :
             std::vector<std::tuple<int, int, int>>{{1, 8, 1}, {2, 4, 2}, {4, 4, 1}, {4, 2, 4}}) {
          const Candidate c = candidate(std::string(schedule->name()), 8, tp, ep, esp);
          if (!runs(*schedule, c.degrees)) continue;
          CAPTURE(schedule->name(), f.has_value(), experts, tp, ep, esp);
          Workload w = workload(f);
          w.routing = {.shape = RoutingShape::Lognormal, .sampled = true};
          const Program p = lower_moe_layer(moe(experts), kM, 64, w, c, 1);
          for (const Block& block : p.blocks) {
            // Bytes into a rank over all parts of an exchange, with what it sends to itself, against its output slices.
            std::vector<double> into(8), output(8);
            for (const Operation& op : block.operations) {
              const Communication* comm = op.communication();
              if (!comm || comm->collective != Collective::AllToAll) continue;
              for (std::int32_t r = 0; r < 8; ++r) {
                const auto i = static_cast<std::size_t>(r);
                output[i] += static_cast<double>(byte_count(p, op.writes.front(), RankId(r)));
                into[i] += static_cast<double>(message_size(p, op, RankId(r)));  // sent, self included
                for (const Flow& flow : group_flows(p, op, RankId(r))) {
                  if (flow.from == RankId(r)) into[i] -= static_cast<double>(flow.bytes);
                  if (flow.to == RankId(r)) into[i] += static_cast<double>(flow.bytes);
                }
              }
            }
            CHECK(into == output);
          }
        }
      }
    }
  }
}

TEST_CASE("routing counts") {
  const Degrees degrees{.dp = 4, .tp = 2, .ep = 4, .esp = 2};
  SECTION("a capacity factor gives every expert ceil(k f tokens / E) rows of each source, as GShard pads") {
    const RoutingCounts c = routing_counts(moe(8), workload(1.2), 30, degrees);
    CHECK(c.is_uniform());
    CHECK(c.at(RankId(0), ExpertId(0)) == 9);  // 2 * 1.2 * 30 / 8
  }
  SECTION("without one nothing is dropped: k rows a token") {
    const RoutingCounts c = routing_counts(moe(7), workload(std::nullopt), 30, degrees);
    std::int64_t rows = 0;
    for (std::int32_t e = 0; e < 7; ++e) rows += c.at(RankId(5), ExpertId(e));
    CHECK(rows == 2 * 30);
  }
}

TEST_CASE("a gate changes what experts are asked for, and the iteration with it") {
  // Two nodes of 4 ranks. Shards are neighbours: an expert-parallel group of rank 0 is 0, 2 | 4, 6.
  Candidate c;
  c.degrees = {.dp = 8, .ep = 4, .esp = 2};
  Workload w = workload(std::nullopt);
  w.routing = {};
  const Moe eight = moe(8);
  const std::int64_t tokens = 32, selections = 2 * tokens;
  SECTION("far experts are those whose holders in the group are on the other node") {
    w.gate = {.kind = GateKind::Topology, .net_over_local = 1};
    const GatedRouting g = gated_routing(eight, w, tokens, c, /*ranks_per_node=*/4);
    const std::int64_t far = selections / 4;  // of the half that is asked for
    for (std::int32_t e = 0; e < 8; ++e) {
      CHECK(g.counts.at(RankId(1), ExpertId(e)) == (e < 4 ? selections - far : far) / 4);
      CHECK(g.counts.at(RankId(7), ExpertId(e)) == (e < 4 ? far : selections - far) / 4);
    }
    CHECK(g.rerouted == 8 * (selections / 2 - far));
    CHECK(lower_moe_layer(eight, kM, tokens, w, c, 4).routings.front().counts == g.counts);
  }
  SECTION("within one node nothing is far") {
    w.gate = {.kind = GateKind::Topology, .net_over_local = 0.01};
    CHECK(gated_routing(eight, w, tokens, c, /*ranks_per_node=*/8).rerouted == 0);
  }
  SECTION("padded rows are a multiple of chunks times shards") {
    w.gate = {.kind = GateKind::Capacity, .factor = 1.1};
    c.pipeline_degree = 4;
    const GatedRouting g = gated_routing(eight, w, tokens, c, 4);
    const std::int64_t T = 9, up = 16;  // 1.1 x 64 / 8 = 8.8
    CHECK(g.counts == RoutingCounts::uniform(8, 8, up));
    CHECK(g.padding == 8 * 8 * (up - selections / 8));
    w.gate.is_padded = false;
    w.routing.shape = RoutingShape::Zipf;
    const RoutingCounts unpadded = gated_routing(eight, w, tokens, c, 4).counts;
    for (std::int32_t e = 0; e < 8; ++e) CHECK(unpadded.at(RankId(0), ExpertId(e)) <= T);
  }
}

TEST_CASE("an iteration of a small model") {
  const ModelSpec model = small_layers::model(1000, {{3, {{0, Ffn{kH, false, false}}, {0, moe(4)}}}});
  const auto use = [&](Recompute recompute, const std::string& schedule) {
    Workload w = workload(std::nullopt);
    w.recompute = recompute;
    w.routing.shape = RoutingShape::Uniform;
    const Candidate c = candidate(schedule, 4, 2, 2, 2);
    REQUIRE_FALSE(infeasibility(model, w, c, 1));
    Workload gated = w;
    gated.gate.kind = GateKind::Topology;
    REQUIRE(infeasibility(model, gated, c, 1)->text == "the topology gate needs net_over_local on this machine");
    const Program p = lower_iteration(model, w, c, 1);
    return std::pair(memory_use(p, stage_parameters(model, w.sequence_length, c.degrees, 1), w, c.degrees), p);
  };
  for (const std::string schedule : {"baseline", "parm_s1", "parm_s2"}) {
    CAPTURE(schedule);
    const auto [none, program] = use(Recompute::None, schedule);
    const auto [selective, selective_program] = use(Recompute::Selective, schedule);
    const auto [full, full_program] = use(Recompute::Full, schedule);
    SECTION("full recomputation keeps fewer activations than selective, selective fewer than none: " + schedule) {
      CHECK(full.activations < selective.activations);
      CHECK(selective.activations < none.activations);
      CHECK(full.activations.value() > 0);
    }
    SECTION("and takes longer, since it computes again: " + schedule) {
      const Cluster cluster = tests::toy_cluster(1, 4);
      const auto time = [&](const Program& p) { return simulate(p, cluster, {.keep_spans = false}).makespan; };
      CHECK(time(program) < time(selective_program));
      CHECK(time(selective_program) < time(full_program));
    }
    SECTION("every layer runs once a microbatch, forward and backward: " + schedule) {
      // Of a block and those that do what it does and what replicas exchange beside.
      std::map<std::string, std::int64_t> runs;
      const std::vector<std::int64_t> counts = block_counts(program);
      for (std::size_t b = 0; b < program.blocks.size(); ++b) {
        const std::string& name = program.blocks[b].name;
        runs[name.substr(0, name.find(','))] += counts[b];
      }
      CHECK(runs.size() == 2 * 4 + 1);  // embedding, dense and MoE layers, output head
      for (const auto& [name, count] : runs) {
        CAPTURE(name);
        const bool layer = name.find(" layer ") != std::string::npos;
        CHECK(count == (name == "optimizer" ? 1 : layer ? 3 * 4 : 4));  // 8 sequences over 2 replicas
      }
    }
  }
}

}  // namespace moeplan::tests::lower_test
