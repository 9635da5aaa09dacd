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
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/gated_routing.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::lower_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

constexpr std::int64_t kM = 64, kH = 128;

Workload workload(std::optional<double> capacity_factor, Mode mode = Mode::Train) {
  Workload w{};
  w.name = "test";
  w.global_batch = 8;
  w.sequence_length = 32;
  w.mode = mode;
  w.dtype = Dtype::Fp32;
  w.recompute = Recompute::None;
  w.optimizer = Optimizer::Adam;
  w.capacity_factor = capacity_factor;
  return w;
}

Moe moe(std::int64_t experts, bool gated = false) {
  return {.num_experts = experts,
          .top_k = 2,
          .expert = {kH, gated, false},
          .shared = {0, false, false},
          .shared_gate = false,
          .router_bias = false};
}

Candidate candidate(const std::string& schedule, std::int64_t world, std::int64_t tp, std::int64_t ep,
                    std::int64_t esp) {
  Candidate c;
  c.degrees = {.dp = world / tp, .tp = tp, .edp = world / (ep * esp), .ep = ep, .esp = esp};
  c.schedule = schedule;
  return c;
}

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

/// Parm's schedules do not repeat work in a tensor-parallel group.
bool splits_tokens(const Schedule& schedule) {
  return schedule.name().starts_with("parm_") || schedule.name().starts_with("s1_") ||
         schedule.name().starts_with("s2_");
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
  ModelSpec model{};
  model.name = "small";
  model.vocab_size = 1000;
  model.hidden_size = kM;
  model.norms_per_layer = 2;
  model.causal = true;
  model.attention =
      HeadAttention{.num_heads = 4, .num_kv_heads = 4, .head_dim = 16, .bias = false, .qk_norm = false, .sinks = false};
  model.layers = {{3, {{0, Ffn{kH, false, false}}, {0, moe(4)}}}};
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

TEST_CASE("a pipeline stage keeps the activations of the microbatches that it has in flight") {
  ModelSpec model{};
  model.name = "small";
  model.vocab_size = 8;
  model.hidden_size = kM;
  model.norms_per_layer = 2;
  model.causal = true;
  model.attention =
      HeadAttention{.num_heads = 4, .num_kv_heads = 4, .head_dim = 16, .bias = false, .qk_norm = false, .sinks = false};
  model.layers = {{8, {{0, moe(4)}}}};
  Workload w = workload(std::nullopt);
  w.routing.shape = RoutingShape::Uniform;
  w.zero_stage = 2;
  constexpr std::int64_t kStages = 4;
  // Kept on one stage; two replicas, so that blocks have variants with their traffic.
  const auto kept = [&](std::int64_t microbatches, std::int64_t parts, std::int64_t stage) {
    w.global_batch = 2 * microbatches;
    Candidate c = candidate("baseline", 2, 1, 2, 1);
    c.degrees.pp = kStages;
    c.virtual_stages = parts;
    REQUIRE_FALSE(infeasibility(model, w, c, 1));
    Program p = lower_iteration(model, w, c, 1);
    p.stages = {p.stages[static_cast<std::size_t>(stage)]};
    p.world_size = 2;
    return memory_use(p, std::vector<StageParameters>(1), w, c.degrees).activations.value();
  };
  const double layer = kept(1, 1, 1) / 2;  // a stage in the middle has two layers and nothing else
  REQUIRE(layer > 0);
  SECTION("one after the other: as many as stages are left, the own one included, or all") {
    for (const std::int64_t microbatches : {1, 2, 3, 8}) {
      for (std::int64_t stage = 0; stage < kStages; ++stage) {
        CAPTURE(microbatches, stage);
        CHECK(kept(microbatches, 1, stage) ==
              static_cast<double>(std::min(microbatches, kStages - stage)) * kept(1, 1, stage));
      }
    }
  }
  SECTION("interleaved: 2 (stages - s - 1) + (parts - 1) stages + 1 passes of a part") {
    // Of two parts, one layer each; 8 microbatches make 16 passes.
    CHECK(kept(8, 2, 1) == (2 * (kStages - 1 - 1) + kStages + 1) * layer);
    CHECK(kept(8, 2, 2) == (2 * (kStages - 2 - 1) + kStages + 1) * layer);
    CHECK(kept(4, 2, 1) == 8 * layer);  // that is all of them
  }
}

TEST_CASE("a pipeline layout says which layers each stage has") {
  ModelSpec model{};
  model.name = "small";
  model.vocab_size = 8;
  model.hidden_size = kM;
  model.norms_per_layer = 2;
  model.causal = true;
  model.attention =
      HeadAttention{.num_heads = 4, .num_kv_heads = 4, .head_dim = 16, .bias = false, .qk_norm = false, .sinks = false};
  model.layers = {{6, {{0, moe(4)}}}};
  model.num_mtp_layers = 1;
  Workload w = workload(std::nullopt);
  w.routing.shape = RoutingShape::Uniform;
  w.global_batch = 4;
  constexpr std::int64_t kMicrobatches = 4;
  const auto planned = [&](const std::string& layout, std::int64_t parts_per_stage) {
    Candidate c = candidate("baseline", 1, 1, 1, 1);
    c.degrees.pp = 2;
    c.virtual_stages = parts_per_stage;
    c.layout = std::get<PipelineLayout>(parse_layout(layout));
    return c;
  };
  /// How often a stage runs blocks whose names begin like this.
  const auto runs = [&](const Candidate& c, std::size_t stage, const std::string& name) {
    REQUIRE_FALSE(infeasibility(model, w, c, 1));
    const Program p = lower_iteration(model, w, c, 1);
    const std::vector<std::int64_t> counts = block_counts(p, stage);
    std::int64_t sum = 0;
    for (std::size_t b = 0; b < p.blocks.size(); ++b) {
      const std::string own = p.blocks[b].name.substr(0, p.blocks[b].name.find(','));
      if (own.starts_with(name) && !own.ends_with("backward")) sum += counts[b];
    }
    return sum;
  };
  SECTION("part p is on stage p mod pp") {
    const Candidate c = planned("Ett|t|tt|tL", 2);
    CHECK(runs(c, 0, "moe layer") == (2 + 2) * kMicrobatches);
    CHECK(runs(c, 1, "moe layer") == (1 + 1) * kMicrobatches);
    CHECK(runs(c, 0, "output head") == 0);
    CHECK(runs(c, 1, "output head") == kMicrobatches);
  }
  SECTION("a multi-token-prediction layer is a layer more, with a projection and the output head") {
    const Candidate with = planned("Ettt|tttmL", 1);
    CHECK(runs(with, 1, "moe layer") == (3 + 1) * kMicrobatches);
    CHECK(runs(with, 1, "output head") == 2 * kMicrobatches);
    CHECK(runs(with, 1, "mtp input") == kMicrobatches);
    const auto stages = stage_parameters(model, w, with), without = stage_parameters(model, w, planned("Ettt|tttL", 1));
    const double layer = layer_parameters(model, model.layers[0].pattern[0], with.degrees).dense;
    const double tables = embedding_parameters(model, with.degrees).dense;  // copied for the layer's own embedding
    CHECK(stages[1].all.dense - without[1].all.dense == layer + tables + 2.0 * kM * kM + 2.0 * kM);
    CHECK(stages[0].all == without[0].all);
  }
  SECTION("a part may have no layer but the head") {
    const Candidate c = planned("Ettt|ttt|L", 1);
    CHECK(infeasibility(model, w, c, 1)->text == "the layout has another number of parts");
    Candidate uneven = planned("Ettt|tt|t|L", 2);
    CHECK(runs(uneven, 1, "moe layer") == 2 * kMicrobatches);
  }
  SECTION("what does not match the model is infeasible") {
    CHECK(infeasibility(model, w, planned("Ett|tttL", 1), 1)->text == "the layout has another number of layers");
    CHECK(infeasibility(model, w, planned("Ettt|tttmmL", 1), 1)->text ==
          "the layout has more mtp layers than the model");
  }
}

TEST_CASE("recomputed modules are computed in backward and not kept") {
  ModelSpec model{};
  model.name = "small";
  model.vocab_size = 1000;
  model.hidden_size = kM;
  model.norms_per_layer = 2;
  model.causal = true;
  model.attention = LatentAttention{.num_heads = 4,
                                    .q_lora_rank = 16,
                                    .kv_lora_rank = 16,
                                    .qk_nope_head_dim = 16,
                                    .qk_rope_head_dim = 8,
                                    .v_head_dim = 16};
  Moe with_shared = moe(4, /*gated=*/true);
  with_shared.shared = {kH, true, false};
  model.layers = {{2, {{0, Ffn{kH, true, false}}, {0, with_shared}}}};
  Workload w = workload(std::nullopt);
  w.routing.shape = RoutingShape::Uniform;
  const Candidate c = candidate("baseline", 2, 1, 2, 1);
  const auto kept = [&](const std::string& modules) {
    w.recompute = *parse_recompute(modules);
    const Program p = lower_iteration(model, w, c, 1);
    return memory_use(p, stage_parameters(model, w, c), w, c.degrees).activations.value();
  };
  constexpr double kBytes = 4, kLayers = 4, tokens = 32;  // one sequence a microbatch
  const double none = kept("none");
  CHECK(none - kept("core_attn") == kLayers * tokens * 4 * 16 * kBytes);
  CHECK(none - kept("mla_up_proj") == kLayers * tokens * 4 * ((16 + 8) + (16 + 16)) * kBytes);
  CHECK(none - kept("layernorm") == kLayers * 2 * tokens * kM * kBytes);
  CHECK(none - kept("moe_act") == kLayers / 2 * 2 * tokens * kH * kBytes);
  CHECK(none - kept("mlp") == kLayers / 2 * tokens * (2 + 1) * kH * kBytes);
  CHECK(none - kept("shared_experts") == kLayers / 2 * tokens * (2 + 1) * kH * kBytes);
  CHECK(kept("moe") < kept("moe_act"));
  CHECK(kept("full") < kept("core_attn+mla_up_proj+layernorm+moe+mlp+shared_experts"));
}

TEST_CASE("MoE layers of different sizes have buffers of their own") {
  ModelSpec model{};
  model.name = "two kinds of experts";
  model.vocab_size = 1000;
  model.hidden_size = kM;
  model.attention = HeadAttention{4, 4, kM / 4, false, false, false};
  Moe wide = moe(8), single = moe(4);
  wide.expert.hidden_size = 2 * kH;
  single.top_k = 1;
  LayerSpec first{}, second{};
  first.ffn = wide;
  second.ffn = single;
  model.layers = {{1, {first, second}}};
  for (const auto& schedule : schedules()) {
    const Candidate c = candidate(std::string(schedule->name()), 4, 1, 4, 1);
    if (infeasibility(model, workload({}), c, 4)) continue;
    const Program p = lower_iteration(model, workload({}), c, 4);
    std::map<std::int64_t, int> choices;
    for (const Buffer& b : p.buffers) {
      if (b.name == "gate.choice") ++choices[b.columns];
    }
    INFO(schedule->name());
    CHECK(choices.size() == 2);  // because one gate selects two experts a token, the other one
  }
}

}  // namespace moeplan::tests::lower_test
