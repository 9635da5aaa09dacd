// Value tests of back ends: MoE layers and their layer strategies, with a check of the values that a back end computes.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuda_runtime/layer_reference.hpp"
#include "cuda_runtime/layer_values.hpp"
#include "model/costs/codec.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/lowering/blocks/gated_routing.hpp"
#include "planner/lowering/layer_step.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/layer_search.hpp"
#include "tests/support/pairwise_runs.hpp"
#include "tests/support/random_placement.hpp"

namespace moeplan::tests {

using namespace planner;
using namespace runtime;

/// A training step: the shared experts, and how replicas exchange gradients and weights.
struct ValueStep {
  std::int64_t zero_stage = 0;
  Optimizer optimizer = Optimizer::Adam;
  std::int64_t shared_ffn = 12;
  bool overlaps = true;
  Dtype gradients = Dtype::Fp32;
  std::optional<Norm> norm = Norm::Rms;
};

/// The parameters of an MoE layer.
struct ValueLayer {
  std::string name;
  Degrees degrees;
  std::int64_t per_node;
  std::int64_t experts;
  RoutingShape shape;
  bool gated;
  Dtype dtype = Dtype::Fp32;
  bool sequence_parallel = false;
  double capacity = 0;  // above 0: GShard's capacity factor, with overflow
  bool padded = false;
  bool placed = false;  // with a random placement in which some experts have several holders
  std::int64_t top_k = 2;
  double empty = 0.125;  // for ZeroLoad: the fraction of experts without tokens
  GateWeights gate_weights = GateWeights::AtSources;
  std::int64_t hidden = 16, ffn = 8, tokens = 6;
  std::optional<ValueStep> step = {};
  Mode mode = Mode::Train;
};

/// A layer in which every token selects the same single expert, with a random placement.
inline ValueLayer one_takes_all(std::int64_t ranks, std::int64_t experts) {
  return {.name = "placed, one takes all",
          .degrees = {.dp = ranks, .ep = ranks},
          .per_node = 2,
          .experts = experts,
          .shape = RoutingShape::ZeroLoad,
          .gated = true,
          .placed = true,
          .top_k = 1,
          .empty = 1};
}

/// A layer whose experts multiply by the gate's weights.
inline ValueLayer weighing(std::int64_t ranks, std::int64_t experts) {
  return {.name = "weighed in experts",
          .degrees = {.dp = ranks, .ep = ranks},
          .per_node = 2,
          .experts = experts,
          .shape = RoutingShape::Zipf,
          .gated = true,
          .gate_weights = GateWeights::InExperts};
}

/// Training steps for 1, 2 or 4 ranks.
inline std::vector<ValueLayer> value_steps(std::int64_t ranks) {
  const auto step = [&](std::string name, Degrees degrees, Dtype dtype, ValueStep of) {
    return ValueLayer{.name = std::move(name),
                      .degrees = degrees,
                      .per_node = ranks,
                      .experts = 5,
                      .shape = RoutingShape::Zipf,
                      .gated = true,
                      .dtype = dtype,
                      .step = of};
  };
  if (ranks == 1) return {step("step alone", {.dp = 1, .ep = 1}, Dtype::Fp32, {0, Optimizer::Sgd})};
  if (ranks == 2) {
    return {step("step of replicas", {.dp = 2, .edp = 2, .ep = 1}, Dtype::Fp32, {0, Optimizer::Sgd, 12, false}),
            step("step in ZeRO 1", {.dp = 2, .ep = 2}, Dtype::Bf16, {.zero_stage = 1, .norm = Norm::Layer}),
            step("step without shared experts", {.dp = 2, .edp = 2, .ep = 1}, Dtype::Fp32, {2, Optimizer::Adam, 0})};
  }
  if (ranks > 4) return {};
  std::vector<ValueLayer> out{
      step("step", {.dp = 4, .edp = 2, .ep = 2}, Dtype::Fp32, {0}),
      step("step with momentum", {.dp = 4, .edp = 2, .ep = 2}, Dtype::Bf16, {0, Optimizer::Sgd}),
      step("step with gradients in bf16", {.dp = 4, .edp = 2, .ep = 2}, Dtype::Bf16, {.gradients = Dtype::Bf16}),
      step("step in ZeRO 3", {.dp = 4, .edp = 2, .ep = 2}, Dtype::Fp32, {.zero_stage = 3, .norm = Norm::Layer}),
      step("step without norm", {.dp = 4, .edp = 2, .ep = 2}, Dtype::Fp32, {.norm = {}}),
      step("step of shards", {.dp = 4, .edp = 2, .ep = 1, .esp = 2}, Dtype::Fp32, {1}),
      step("step with tp", {.dp = 2, .tp = 2, .edp = 2, .ep = 2}, Dtype::Fp32, {1}),
      step("step with tp, sequence parallel", {.dp = 2, .tp = 2, .edp = 2, .ep = 2}, Dtype::Fp32, {0})};
  out.back().sequence_parallel = true;
  return out;
}

/// The layers for 1, 2, 4 or 8 ranks without training steps.
inline std::vector<ValueLayer> lone_layers(std::int64_t ranks) {
  using enum RoutingShape;
  if (ranks == 1) {
    return {{"alone", {.dp = 1, .ep = 1}, 1, 4, Zipf, true},
            {"alone", {.dp = 1, .ep = 1}, 1, 3, ZeroLoad, false, Dtype::Bf16}};
  }
  if (ranks == 2) {
    return {{"uniform", {.dp = 2, .ep = 2}, 2, 4, Uniform, true},
            {"skewed", {.dp = 2, .ep = 2}, 1, 5, Zipf, false, Dtype::Bf16},
            {"empty experts", {.dp = 2, .ep = 2}, 1, 6, ZeroLoad, true, Dtype::Fp16},
            {"shards", {.dp = 1, .tp = 2, .ep = 1, .esp = 2}, 2, 3, Zipf, true},
            {"shards without tp", {.dp = 2, .ep = 1, .esp = 2}, 2, 3, HotExpert, false},
            {"overflowing", {.dp = 2, .ep = 2}, 2, 4, HotExpert, true, Dtype::Fp32, false, 1.0},
            {"padded", {.dp = 2, .ep = 2}, 2, 4, HotExpert, true, Dtype::Fp32, false, 1.0, true},
            {"placed", {.dp = 2, .ep = 2}, 2, 5, Zipf, true, Dtype::Fp32, false, 0, false, true},
            {.name = "placed, forward",
             .degrees = {.dp = 2, .ep = 2},
             .per_node = 2,
             .experts = 5,
             .shape = Zipf,
             .gated = true,
             .placed = true,
             .mode = Mode::Forward},
            one_takes_all(2, 5),
            weighing(2, 5)};
  }
  if (ranks == 4) {
    return {
        {"uniform", {.dp = 4, .ep = 4}, 2, 4, Uniform, true},
        {"skewed", {.dp = 4, .ep = 4}, 2, 7, Zipf, false, Dtype::Bf16},
        {"empty experts", {.dp = 4, .edp = 2, .ep = 2}, 2, 6, ZeroLoad, true},
        {"tp and shards", {.dp = 2, .tp = 2, .ep = 2, .esp = 2}, 2, 4, Zipf, true},
        {"shards without tp", {.dp = 4, .ep = 1, .esp = 4}, 4, 3, HotExpert, true},
        {"overflowing", {.dp = 4, .ep = 4}, 2, 4, HotExpert, false, Dtype::Fp32, false, 1.0},
        {"placed", {.dp = 4, .ep = 4}, 2, 6, Zipf, true, Dtype::Fp32, false, 0, false, true},
        {"placed replicas", {.dp = 4, .edp = 2, .ep = 2}, 2, 5, HotExpert, false, Dtype::Fp32, false, 0, false, true},
        one_takes_all(4, 6),
        weighing(4, 6),
        {.name = "weighed in shards",
         .degrees = {.dp = 2, .tp = 2, .ep = 2, .esp = 2},
         .per_node = 2,
         .experts = 4,
         .shape = Zipf,
         .gated = true,
         .gate_weights = GateWeights::InExperts},
        {.name = "placed, more ranks than experts",
         .degrees = {.dp = 4, .ep = 4},
         .per_node = 2,
         .experts = 3,
         .shape = Zipf,
         .gated = true,
         .placed = true}};
  }
  return {
      {"uniform", {.dp = 8, .ep = 8}, 4, 8, Uniform, true},
      {"skewed", {.dp = 8, .ep = 8}, 2, 11, Zipf, false},
      {"empty experts", {.dp = 8, .edp = 2, .ep = 4}, 2, 6, ZeroLoad, true},
      {"tp and shards", {.dp = 4, .tp = 2, .edp = 1, .ep = 4, .esp = 2}, 4, 8, Zipf, true},
      {"tp", {.dp = 4, .tp = 2, .edp = 2, .ep = 4}, 4, 5, HotExpert, false},
      {"sequence parallel", {.dp = 2, .tp = 4, .edp = 1, .ep = 4, .esp = 2}, 4, 4, Uniform, true, Dtype::Fp32, true},
      {"overflowing", {.dp = 8, .ep = 8}, 4, 8, HotExpert, true, Dtype::Fp32, false, 1.0},
      {"placed", {.dp = 8, .ep = 8}, 4, 11, Zipf, true, Dtype::Fp32, false, 0, false, true},
      {"placed shards",
       {.dp = 4, .tp = 2, .edp = 1, .ep = 4, .esp = 2},
       4,
       8,
       Zipf,
       true,
       Dtype::Fp32,
       false,
       0,
       false,
       true},
      {.name = "placed, empty experts",
       .degrees = {.dp = 8, .edp = 2, .ep = 4},
       .per_node = 2,
       .experts = 6,
       .shape = ZeroLoad,
       .gated = false,
       .placed = true,
       .empty = 0.5},
      one_takes_all(8, 5)};
}

/// The layers for 1, 2, 4 or 8 ranks, and training steps of layers.
inline std::vector<ValueLayer> value_layers(std::int64_t ranks) {
  std::vector<ValueLayer> out = lone_layers(ranks);
  for (ValueLayer& step : value_steps(ranks)) out.push_back(std::move(step));
  return out;
}

/// Layers whose rows take several warps of a GPU, and products several of its tiles, for any number of ranks.
inline std::vector<ValueLayer> wide_layers(std::int64_t ranks, std::int64_t hidden, std::int64_t ffn,
                                           std::int64_t tokens) {
  const ValueLayer wide{.name = "wide",
                        .degrees = {.dp = ranks, .ep = ranks},
                        .per_node = 2,
                        .experts = ranks + 3,
                        .shape = RoutingShape::Zipf,
                        .gated = true,
                        .hidden = hidden,
                        .ffn = ffn,
                        .tokens = tokens};
  ValueLayer odd = wide;  // every second row begins at no multiple of 16 bytes
  odd.name = "wide and odd";
  odd.dtype = Dtype::Bf16;
  odd.gated = false;
  odd.hidden = hidden + 4;
  return {wide, odd};
}

/// The workload of a layer, with all codecs allowed.
inline Workload workload_of(const ValueLayer& layer) {
  Workload w{};
  w.name = "values";
  w.mode = layer.mode;
  w.dtype = layer.dtype;
  w.routing.shape = layer.shape;
  w.routing.sampled = true;
  w.gate_weights = layer.gate_weights;
  if (layer.shape == RoutingShape::ZeroLoad) w.routing.hot_fraction = layer.empty;
  w.codecs.allowed = {WireFormat::Fp16, WireFormat::Int8, WireFormat::Fp8Block, WireFormat::Zfp};
  if (layer.step) {
    w.zero_stage = layer.step->zero_stage;
    w.optimizer = layer.step->optimizer;
    w.overlap_gradients = layer.step->overlaps;
    w.gradient_dtype = layer.step->gradients;
    w.codecs.allowed.clear();
  }
  if (layer.capacity > 0) {
    w.gate = {.kind = GateKind::Capacity, .factor = layer.capacity, .is_padded = layer.padded};
  }
  return w;
}

/// One layer with its workload, executed under any of its strategies.
struct ValueCase {
  const ValueLayer& layer;
  Workload workload;
  Candidate base;

  explicit ValueCase(const ValueLayer& l) : layer(l), workload(workload_of(l)) {
    base.degrees = l.degrees;
    base.sequence_parallel = l.sequence_parallel;
    if (l.placed) {
      base.expert_places = {random_placement(l.experts, l.degrees.ep, static_cast<std::uint64_t>(l.experts))};
      workload.codecs.allowed.clear();
    }
  }

  /// The layer strategies that the tests execute.
  std::vector<LayerStrategy> runs() const { return executed_strategies(layer.hidden, workload, base, layer.per_node); }
  std::string name(const LayerStrategy& run) const { return fmt::format("{}, {}", layer.name, strategy_text(run)); }

  /// Executes the layer, or a training step of it, `times` times on a back end that executes nothing else, and returns
  /// the error on this rank, or
  /// "". Increases `worst` to the largest error if the execution is lossless fp32.
  std::string problem(const LayerStrategy& run, Backend& backend, RankId rank, double& worst, int times = 1) const {
    const Candidate c = run.in(base);
    const bool is_step = layer.step.has_value();
    const Moe moe{.num_experts = layer.experts,
                  .top_k = layer.top_k,
                  .expert = {.hidden_size = layer.ffn, .gated = layer.gated, .bias = false},
                  .shared = {.hidden_size = is_step ? layer.step->shared_ffn : 0, .gated = layer.gated, .bias = false},
                  .shared_gate = false,
                  .router_bias = false};
    const std::int64_t tokens = layer.tokens * layer.degrees.tp;
    const Program program =
        (is_step ? lower_layer_step(moe, layer.step->norm, layer.hidden, tokens, workload, c, layer.per_node)
                 : lower_moe_layer(moe, layer.hidden, tokens, workload, c, layer.per_node));
    const CodecPair codec = run.codec;
    const SyntheticLayer made = with_choices(
        {.shape = {layer.hidden, layer.ffn, layer.experts, moe.top_k, layer.gated},
         .dtype = layer.dtype,
         .esp = layer.degrees.esp,
         .shared =
             is_step ? std::optional(MoeShape{layer.hidden, layer.step->shared_ffn, 1, 1, layer.gated}) : std::nullopt,
         .tp = layer.degrees.tp,
         .norm = is_step ? layer.step->norm : std::nullopt,
         .dispatch_format = codec.dispatch,
         .combine_format = codec.combine,
         .weighs_at_experts = workload.gate_weights == GateWeights::InExperts || run.all_to_all->deduplicates(),
         .codecs = workload.codecs,
         .seed = 7,
         .asked = routing_counts(moe, workload, layer.tokens, layer.degrees)},
        program.routings.front(), layer.tokens);
    Interpreter interpreter(program, rank, made.kept, {moe.top_k, layer.gated}, backend);
    LayerValues values(program, made, interpreter);
    for (int i = 0; i < times; ++i) {
      values.fill();
      (void)interpreter.run();
    }
    const ValueErrors e = values.errors(kMostReferenceFlops);
    if (run.codec == CodecPair{} && layer.dtype == Dtype::Fp32) worst = std::max(worst, e.worst());
    if (are_right(e, made)) return "";
    return fmt::format("output {:.2e}, gradient {:.2e}, weight gradient {:.2e}, update {:.2e}, {:.1f}% of {} rows off",
                       e.output, e.gradient, e.weight_gradient, e.update, 100 * e.rows_off, e.rows);
  }
};

}  // namespace moeplan::tests
