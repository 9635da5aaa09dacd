#include "tests/baseline/random_plan.hpp"

#include <utility>

#include "model/costs/codec.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/search/place_experts.hpp"
#include "tests/support/random_pipelines.hpp"
#include "tests/support/random_placement.hpp"

namespace moeplan::tests {

using namespace planner;

namespace {

using Counts = std::vector<std::int64_t>;
using Texts = std::vector<std::string>;

// Every draw is a statement of its own: the order in which operands are evaluated is the compiler's.

bool one_in(Random& random, std::uint64_t n) { return random.below(n) == 0; }

CodecPair random_codec(Random& random) {
  Texts names{"none"};
  for (const CodecEntry& codec : codecs()) names.emplace_back(codec.name);
  const std::string dispatch = any_of(random, names);
  const std::string combine = any_of(random, names);
  return *parse_codec_pair(dispatch + "/" + combine);
}

std::string random_schedule(Random& random) {
  return std::string(schedules()[random.below(schedules().size())]->name());
}

/// Attention, norms, embeddings and experts of every form.
void vary_model(Random& random, ModelSpec& model) {
  const std::int64_t heads = std::get<HeadAttention>(model.attention).num_heads;
  if (one_in(random, 4)) {
    model.attention = LatentAttention{.num_heads = heads,
                                      .q_lora_rank = any_of(random, Counts{0, 48}),
                                      .kv_lora_rank = 32,
                                      .qk_nope_head_dim = 16,
                                      .qk_rope_head_dim = 8,
                                      .v_head_dim = 16};
  } else {
    auto& attention = std::get<HeadAttention>(model.attention);
    attention.num_kv_heads = any_of(random, Counts{1, 2, heads});
    attention.bias = attention.output_bias = one_in(random, 3);
    attention.qk_norm = one_in(random, 3);
    attention.sinks = one_in(random, 4);
  }
  model.causal = !one_in(random, 4);
  model.norm = one_in(random, 2) ? Norm::Layer : Norm::Rms;
  model.tied_embeddings = one_in(random, 2);
  model.position_embeddings = one_in(random, 3) ? 2048 : 0;
  model.token_types = one_in(random, 4) ? 2 : 0;
  model.embedding_norm = one_in(random, 4);
  model.final_norm = !one_in(random, 4);
  model.lm_head_bias = one_in(random, 5);
  LayerSpec& last = model.layers.back().pattern.back();
  Moe& moe = std::get<Moe>(last.ffn);
  moe.expert.gated = one_in(random, 2);
  moe.expert.bias = one_in(random, 3);
  moe.router_bias = one_in(random, 3);
  moe.shared_gate = moe.shared.hidden_size > 0 && one_in(random, 2);
  last.attention_window = one_in(random, 4) ? 16 : 0;
  if (!one_in(random, 3)) return;
  LayerSpec other = last;  // MoE layers of a second kind
  auto& other_moe = std::get<Moe>(other.ffn);
  other_moe.expert.hidden_size *= 2;
  other_moe.top_k = 1;
  RepeatedLayers run{.repeat = 1 + static_cast<std::int64_t>(random.below(2)), .pattern = {other}};
  if (one_in(random, 2)) run.pattern.push_back(last);
  model.layers.push_back(std::move(run));
}

void vary_workload(Random& random, Workload& workload) {
  workload.codecs.allowed = {WireFormat::Fp16, WireFormat::Int8, WireFormat::Zfp};
  workload.codecs.zfp_bits = any_of(random, Counts{4, 8, 12});
  workload.codecs.int8_row_messages = any_of(random, Counts{1, 2});
  workload.optimizer = one_in(random, 3) ? Optimizer::Sgd : Optimizer::Adam;
  workload.expert_layout = one_in(random, 3) ? ExpertLayout::BySource : ExpertLayout::Merged;
  if (one_in(random, 3)) workload.recompute.reset();
  if (workload.capacity_factor) {
    workload.encoding = one_in(random, 3) ? Encoding::Dense : Encoding::Sparse;
  } else if (one_in(random, 6)) {
    workload.gate.kind = GateKind::Topology;
    workload.gate.net_over_local = 0.3;
  } else if (one_in(random, 5)) {
    workload.gate.kind = GateKind::Capacity;
    workload.gate.factor = any_of(random, std::vector<double>{1.2, 0, -2});
    workload.gate.is_padded = one_in(random, 2);
  }
}

Small random_small(Random& random) {
  SmallCase c = random_case(random);
  c.nodes = any_of(random, Counts{1, 2, 2, 3, 4});
  c.moe_layers = 1 + static_cast<std::int64_t>(random.below(5));
  c.zero_stage = static_cast<std::int64_t>(random.below(4));
  c.dtype = any_of(random, Texts{"bf16", "bf16", "fp16", "fp32"});
  const std::string shape = any_of(random, Texts{"uniform", "uniform", "zipf", "lognormal", "balanced", "hot_expert",
                                                 "hot_rank", "spread", "ragged", "zero_load"});
  const bool sampled = shape != "balanced" && one_in(random, 2);
  const std::string seed = std::to_string(random.below(1000));
  c.routing = "{shape: " + shape + ", sampled: " + (sampled ? "true" : "false") + ", seed: " + seed + "}";
  Small s = small(c);
  if (one_in(random, 12)) {
    override_value(s.documents.cluster, "ranks_per_gpu", "2", "a test");
    s.cluster = build_cluster(read_cluster(s.documents.cluster), std::nullopt);
  }
  vary_model(random, s.model);
  vary_workload(random, s.workload);
  return s;
}

Candidate random_decisions(Random& random, const Small& s, std::string_view schedule) {
  const std::int64_t world = s.cluster.world_size();
  std::int64_t pp = any_of(random, Counts{1, 1, 2, 3, 4});
  if (world % pp != 0) pp = 1;
  Candidate c = random_candidate(random, world, s.workload.global_batch, pp);
  if (pp == 1) c.virtual_stages = 1;
  c.schedule = schedule;
  if (!one_in(random, 3)) c.all_to_all = any_of(random, all_to_all_names());
  c.pipeline_degree = any_of(random, Counts{1, 1, 2, 3, 4, 8});
  if (one_in(random, 2)) c.codec = random_codec(random);
  c.recompute = any_of(random, std::vector<Recompute>{Recompute::None, Recompute::Selective, Recompute::Full});
  if (one_in(random, 8)) c.order = OperationOrder::Searched;
  return c;
}

/// Other counts for every MoE layer, from as many sources as a stage has ranks, or twice as many.
RecordedRouting random_recording(Random& random, const ModelSpec& model, const Degrees& degrees) {
  const TraceMapping mapping = one_in(random, 2) ? TraceMapping::Sum : TraceMapping::None;
  const std::int64_t sources = degrees.ranks_per_stage() * (mapping == TraceMapping::Sum ? 2 : 1);
  const std::int64_t layers = model.num_moe_layers(), experts = moe_layers(model).front().num_experts;
  std::vector<std::uint32_t> counts;
  for (std::int64_t i = 0; i < layers * sources * experts; ++i) {
    counts.push_back(1 + static_cast<std::uint32_t>(random.below(100)));
  }
  return {.file = "recorded.csv",
          .sha256 = "",
          .iteration = 0,
          .sources = mapping,
          .counts = {{0}, layers, sources, experts, std::move(counts)}};
}

void vary_runs(Random& random, const ModelSpec& model, bool is_recorded, Candidate& c) {
  const std::int64_t kinds = number_of_routing_kinds(model, is_recorded);
  if (kinds < 2 || one_in(random, 2)) return;
  c.runs = {LayerStrategy::of(c)};
  while (std::ssize(c.runs) < kinds) {
    LayerStrategy run = c.runs.front();
    run.pipeline_degree = any_of(random, Counts{1, 2, 4});
    if (one_in(random, 2)) run.schedule = random_schedule(random);
    if (one_in(random, 2)) run.codec = random_codec(random);
    c.runs.push_back(std::move(run));
  }
}

/// The candidate with experts placed, by a strategy or at random; unchanged where that is not feasible.
Candidate with_random_placement(Random& random, const Small& s, const Candidate& base) {
  if (base.degrees.ep == 1 || one_in(random, 2)) return base;
  Candidate out = base;
  if (one_in(random, 4)) {
    out.placement = "auto";
    const std::uint64_t seed = random.bits();
    const auto kinds = static_cast<std::uint64_t>(number_of_routing_kinds(s.model, s.workload.recorded.has_value()));
    const std::int64_t experts = moe_layers(s.model).front().num_experts;
    for (std::uint64_t kind = 0; kind < kinds; ++kind) {
      out.expert_places.push_back(random_placement(experts, base.degrees.ep, seed + kind));
    }
  } else {
    const std::string strategy = any_of(random, placement_names());
    const std::int64_t redundant = any_of(random, Counts{0, 1, 2, 4});
    PlacedCandidate answer =
        with_placement(s.model, s.workload, s.cluster, base, strategy, redundant, PlacementGoal::Iteration);
    if (answer.infeasibility) return base;
    out = std::move(answer.candidate);
  }
  return infeasibility(s.model, s.workload, out, s.cluster.ranks_per_node()) ? base : out;
}

}  // namespace

RandomPlan random_plan(Random& random, std::string_view schedule) {
  constexpr int kTriesPerCase = 50;
  for (;;) {
    Small s = random_small(random);
    for (int i = 0; i < kTriesPerCase; ++i) {
      Candidate c = random_decisions(random, s, schedule);
      s.workload.recorded.reset();
      if (!s.workload.capacity_factor && s.workload.gate.kind == GateKind::TopK && one_in(random, 8))
        s.workload.recorded = random_recording(random, s.model, c.degrees);
      vary_runs(random, s.model, s.workload.recorded.has_value(), c);
      if (infeasibility(s.model, s.workload, c, s.cluster.ranks_per_node())) continue;
      c = with_random_placement(random, s, c);
      return {std::move(s), std::move(c)};
    }
  }
}

}  // namespace moeplan::tests
