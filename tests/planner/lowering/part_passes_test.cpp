// The parts of pipelines and what their passes keep, in whole Programs.
#include "planner/lowering/part_passes.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "model/costs/estimate.hpp"
#include "model/costs/memory.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/small_layers.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::part_passes_test {

using namespace moeplan::planner;
using namespace moeplan::sim;
using namespace small_layers;

TEST_CASE("a pipeline stage keeps the activations of the microbatches that it has in flight") {
  const ModelSpec model = small_layers::model(8, {{8, {{0, moe(4)}}}});
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

TEST_CASE("gradients are reduced next to the last backward pass or, without overlap, all at once after it") {
  const ModelSpec model = small_layers::model(8, {{3, {{0, moe(4)}}}});
  Workload w = workload(std::nullopt);
  w.routing.shape = RoutingShape::Uniform;
  w.zero_stage = 1;
  w.global_batch = 4;
  const auto lowered = [&](bool overlaps) {
    w.overlap_gradients = overlaps;
    const Candidate c = candidate("baseline", 2, 1, 2, 1);
    REQUIRE_FALSE(infeasibility(model, w, c, 1));
    return lower_iteration(model, w, c, 1);
  };
  struct Reduced {
    double bytes = 0, after_backward = 0;
    std::int64_t operations = 0;
  };
  const auto reduced = [](const Program& p) {
    Reduced out;
    const std::vector<std::int64_t> counts = block_counts(p, 0);
    for (std::size_t b = 0; b < counts.size(); ++b) {
      for (const Operation& op : p.blocks[b].operations) {
        if (op.op_class != OpClass::Gradient || !op.communication()) continue;
        const double bytes = static_cast<double>(counts[b]) * static_cast<double>(message_size(p, op, RankId(0)));
        out.bytes += bytes;
        if (p.blocks[b].name == "optimizer") out.after_backward += bytes;
        out.operations += counts[b];
      }
    }
    return out;
  };
  const Program with = lowered(true), without = lowered(false);
  const Reduced next_to = reduced(with), after = reduced(without);
  CHECK(next_to.after_backward == 0);
  CHECK(after.after_backward == after.bytes);
  CHECK(after.operations == 1);  // of the dense parameters; the two ranks hold different experts
  CHECK(after.bytes == Approx(next_to.bytes).epsilon(0.02));  // shards are padded to 64 elements
  Cluster cluster = tests::toy_cluster(1, 2);
  const SimTime concurrent = simulate(with, cluster).makespan, one_by_one = simulate(without, cluster).makespan;
  CHECK(concurrent < one_by_one);
}

TEST_CASE("with sharded weights gradients are reduced next to the layer after, which waits for its weights alone") {
  const ModelSpec model = small_layers::model(8, {{6, {{0, moe(4)}}}});
  Workload w = workload(std::nullopt);
  w.routing.shape = RoutingShape::Uniform;
  w.zero_stage = 3;
  w.global_batch = 8;
  w.sequence_length = 2048;
  const Candidate c = candidate("baseline", 2, 1, 1, 1);
  REQUIRE_FALSE(infeasibility(model, w, c, 1));
  const Program p = lower_iteration(model, w, c, 1);
  std::map<OpClass, double> bytes;
  const std::vector<std::int64_t> counts = block_counts(p, 0);
  for (std::size_t b = 0; b < counts.size(); ++b) {
    for (const Operation& op : p.blocks[b].operations) {
      if (op.communication())
        bytes[op.op_class] += static_cast<double>(counts[b]) * static_cast<double>(message_size(p, op, RankId(0)));
    }
  }
  // Weights are gathered in both passes of the four microbatches, and their gradients reduced once in each.
  CHECK(bytes[OpClass::WeightGather] == Approx(2 * bytes[OpClass::Gradient]).epsilon(0.02));
  // Where computation takes longer than a gathering and a reduction together, a layer waits for neither.
  const Timeline t = simulate(p, tests::toy_cluster(1, 2));
  SimTime waited{}, longest{};
  for (const TimelineSpan& s : t.spans) {
    const Operation& op = p.blocks[s.block.index()].operations[static_cast<std::size_t>(s.operation)];
    if (s.rank != RankId(0)) continue;
    if (op.communication()) longest = std::max(longest, s.end - s.start);
    if (std::holds_alternative<Wait>(op.work)) waited += s.end - s.start;
  }
  CHECK(longest > SimTime(0));
  // For the first layer of each pass and, before the optimizer, the last one.
  CHECK(waited.seconds() <= 9.0 * longest.seconds());
}

TEST_CASE("weights of a stage's later parts are gathered while the part before has its other microbatches") {
  const ModelSpec model = small_layers::model(8, {{12, {{0, moe(4)}}}});
  Workload w = workload(std::nullopt);
  w.routing.shape = RoutingShape::Uniform;
  w.zero_stage = 1;
  w.global_batch = 8;
  w.sequence_length = 2048;
  Candidate c = candidate("baseline", 2, 1, 1, 1);
  c.degrees.pp = 2;
  struct Gathered {
    double bytes = 0;
    std::int64_t waits = 0;
    SimTime waited{}, longest{};
  };
  const auto gathered = [&](std::int64_t parts) {
    c.virtual_stages = parts;
    REQUIRE_FALSE(infeasibility(model, w, c, 1));
    const Program p = lower_iteration(model, w, c, 1);
    Gathered out;
    const Timeline t = simulate(p, tests::toy_cluster(1, 4));
    for (const TimelineSpan& s : t.spans) {
      const Operation& op = p.blocks[s.block.index()].operations[static_cast<std::size_t>(s.operation)];
      if (s.rank != RankId(0) || op.op_class != OpClass::WeightGather) continue;
      if (op.communication()) {
        out.bytes += static_cast<double>(message_size(p, op, RankId(0)));
        out.longest = std::max(out.longest, s.end - s.start);
      } else {
        ++out.waits;
        out.waited += s.end - s.start;
      }
    }
    return out;
  };
  // The first stage has the embedding and six layers; with three parts two layers in each.
  const Gathered one = gathered(1), three = gathered(3);
  CHECK(one.bytes == three.bytes);
  CHECK(one.waits == 7);
  CHECK(three.waits == 3 + 1 + 1);  // for each unit of the first part, and once for each of the others
  CHECK(three.waited.seconds() <= 2.0 * three.longest.seconds());  // for the first unit, which nothing hides
}

TEST_CASE("a pipeline layout says which layers each stage has") {
  ModelSpec model = small_layers::model(8, {{6, {{0, moe(4)}}}});
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
  CHECK(none == kept("core_attn"));                          // the output projection keeps its input
  constexpr double kHeads = 4 * ((16 + 8) + (16 + 8) + 16);  // queries, keys and values
  CHECK(none - kept("mla_up_proj") == kLayers * tokens * kHeads * kBytes);
  CHECK(none - kept("layernorm") == kLayers * 2 * tokens * kM * kBytes);
  CHECK(none - kept("moe_act") == kLayers / 2 * 2 * tokens * kH * kBytes);
  CHECK(none - kept("mlp") == kLayers / 2 * tokens * (2 + 1) * kH * kBytes);
  CHECK(none - kept("shared_experts") == kLayers / 2 * tokens * (2 + 1) * kH * kBytes);
  CHECK(kept("moe") < kept("moe_act"));
  SECTION("queries without a latent are computed again from the hidden state") {
    std::get<LatentAttention>(model.attention).q_lora_rank = 0;
    const double direct = kept("none");
    CHECK(direct - kept("mla_up_proj") == kLayers * tokens * kHeads * kBytes);
  }
  SECTION("a matrix of attention that is not fused is kept, or computed again") {
    w.fusions = Fusions{Fusion::Router};
    CHECK(kept("none") - none == kLayers * tokens * 4 * tokens * kBytes);
    CHECK(kept("core_attn") == none);
    w.fusions = Fusions::Default;
  }
  CHECK(kept("full") < kept("core_attn+mla_up_proj+layernorm+moe+mlp+shared_experts"));
  SECTION("of whole layers, only their inputs are kept, with norms of queries and keys too") {
    const double latent = kept("full");
    model.attention = HeadAttention{
        .num_heads = 4, .num_kv_heads = 4, .head_dim = 16, .bias = false, .qk_norm = true, .sinks = false};
    CHECK(kept("full") == latent);
  }
}

TEST_CASE("Layers can be recomputed by number, or the first ones of each part") {
  const ModelSpec model = small_layers::model(8, {{8, {{0, moe(4)}}}});
  Workload w = workload(std::nullopt);
  w.routing.shape = RoutingShape::Uniform;
  w.global_batch = 4;
  w.recompute = Recompute::Full;
  Candidate c = candidate("baseline", 1, 1, 1, 1);
  c.degrees.pp = 2;
  c.virtual_stages = 2;
  c.layout = std::get<PipelineLayout>(parse_layout("Ett|ttt|t|ttL"));
  const auto of = [&](const std::string& layers) {
    w.recompute_layers = *parse_recomputed_layers(layers);
    return lower_iteration(model, w, c, 1);
  };
  /// Activations that the fullest stage keeps.
  const auto kept = [&](const Program& p) {
    return memory_use(p, stage_parameters(model, w, c), w, c.degrees).activations.value();
  };
  CHECK(of("first:1") == of("0,2,5,6"));
  CHECK(of("first:2") == of("0-3,5-7"));
  CHECK(of("first:3") == of("all"));
  CHECK(of("0-7") == of("all"));
  const double all = kept(of("all")), some = kept(of("first:1")), none = [&] {
    w.recompute = Recompute::None;
    return kept(of("all"));
  }();
  CHECK(all < some);
  CHECK(some < none);
  SECTION("the common work of candidates counts no layer as recomputed that is not") {
    w.recompute = Recompute::Full;
    const auto passes = [&](const std::string& layers) {
      w.recompute_layers = *parse_recomputed_layers(layers);
      const LoweredPasses lowered = lower_passes(model, w, candidate("baseline", 1, 1, 1, 1), 1);
      std::vector<std::size_t> operations;
      for (const BlockId b : lowered.backward)
        operations.push_back(lowered.program.blocks[b.index()].operations.size());
      return operations;
    };
    const auto whole = passes("all"), fourth = passes("3");
    REQUIRE(whole.size() == 10);  // with embedding and head
    for (std::size_t unit = 1; unit < 9; ++unit) CHECK((fourth[unit] == whole[unit]) == (unit == 4));
  }
}

TEST_CASE("Passes of some units are those units' passes of the whole model") {
  const ModelSpec model = small_layers::model(8, {{8, {{0, moe(4)}}}});
  const Workload w = workload(std::nullopt);
  const Candidate c = candidate("baseline", 1, 1, 1, 1);
  const LoweredPasses all = lower_passes(model, w, c, 1);
  const std::vector<std::size_t> units{0, 3, 9};  // the embedding, a layer, the head
  const LoweredPasses some = lower_passes(model, w, c, 1, units);
  const auto operations = [](const LoweredPasses& of, BlockId block) {
    std::vector<std::string> names;
    for (const Operation& o : of.program.blocks[block.index()].operations) names.push_back(o.name);
    return names;
  };
  REQUIRE(all.forward.size() == 10);
  REQUIRE(some.forward.size() == units.size());
  REQUIRE(some.backward.size() == units.size());
  for (std::size_t i = 0; i < units.size(); ++i) {
    CHECK(operations(some, some.forward[i]) == operations(all, all.forward[units[i]]));
    CHECK(operations(some, some.backward[i]) == operations(all, all.backward[units[i]]));
  }
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

}  // namespace moeplan::tests::part_passes_test
