#include "planner/plan/layer_case.hpp"

#include <fmt/format.h>

#include <numeric>

#include "model/base/whole_numbers.hpp"
#include "model/program/row_keys.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/lowering/blocks/gated_routing.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/layer_step.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/plan/plan.hpp"

namespace moeplan::planner {

namespace {

[[noreturn]] void fail(std::string key, std::string message) {
  throw InputError(Diagnostic{{"layer"}, std::move(key), std::move(message)});
}

/// The MoE layer, and the number of MoE layers before it.
std::pair<const LayerSpec*, std::size_t> moe_of(const ModelSpec& model, std::optional<std::int64_t> layer) {
  std::int64_t i = 0;
  std::size_t before = 0;
  for (const RepeatedLayers& run : model.layers) {
    for (std::int64_t r = 0; r < run.repeat; ++r) {
      for (const LayerSpec& spec : run.pattern) {
        const Moe* moe = std::get_if<Moe>(&spec.ffn);
        if (layer ? i == *layer : moe != nullptr) {
          if (moe != nullptr) return {&spec, before};
          fail("--layer", fmt::format("layer {} of {} has no experts", i, model.name));
        }
        ++i;
        before += moe != nullptr ? 1 : 0;
      }
    }
  }
  if (!layer) fail("", fmt::format("{} has no layer with experts", model.name));
  fail("--layer", fmt::format("{} has layers 0 to {}, not {}", model.name, i - 1, *layer));
}

/// Sets the ranks of a step: all replicas of the experts.
void fit_replicas(Degrees& d) {
  const std::int64_t world = d.edp * d.ep * d.esp;
  if (world % d.tp != 0) fail("--step", fmt::format("{} ranks are no multiple of tp {}", world, d.tp));
  d.dp = world / d.tp;
}

/// Sets the smallest number of ranks on which both the dense part and the experts have complete groups.
void fit_world(Degrees& d) {
  const std::int64_t world = std::lcm(d.tp, d.ep * d.esp);
  d.dp = world / d.tp;
  d.edp = world / (d.ep * d.esp);
}

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) { return ceil_div(n, multiple) * multiple; }

}  // namespace

LayerCase layer_case(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                     std::int64_t ranks_per_node, std::optional<std::int64_t> layer) {
  const auto [spec, number] = moe_of(model, layer);
  const std::size_t kind = routing_kinds(model, workload.recorded.has_value())[number];
  if (workload.recorded && kind > 0) fail("--layer", "of a recorded routing the first layer is executed");
  LayerCase out{.moe = std::get<Moe>(spec->ffn),
                .hidden_size = std::get<Moe>(spec->ffn).row_columns(model.hidden_size),
                .tokens = candidate.micro_batch * workload.sequence_length / candidate.degrees.cp,
                .workload = workload,
                .candidate = candidate,
                .ranks_per_node = ranks_per_node};
  out.moe.shared = {};
  out.moe.shared_gate = false;
  out.moe.latent_size = 0;                               // its projections are no part of the layer that is executed
  out.moe.expert_groups = out.moe.groups_per_token = 1;  // synthetic tokens select from all experts
  if (!candidate.runs.empty()) out.candidate = candidate.runs[kind].in(candidate);
  if (!candidate.expert_places.empty()) out.candidate.expert_places = {candidate.expert_places[kind]};
  Degrees& d = out.candidate.degrees;
  d.pp = d.cp = 1;
  fit_world(d);
  out.candidate = stage_alone(std::move(out.candidate));
  out.candidate.order = OperationOrder::Listed;
  if (!out.workload.recompute) out.workload.recompute = candidate.recompute;
  return out;
}

LayerCase layer_step_case(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                          std::int64_t ranks_per_node, std::optional<std::int64_t> layer) {
  LayerCase out = layer_case(model, workload, candidate, ranks_per_node, layer);
  const auto refuse = [](const std::string& why) { fail("--step", why); };
  const auto name = [](Dtype dtype) { return name_of<Dtype>(kDtypeNames, dtype); };
  if (workload.mode != Mode::Train) refuse("needs a workload that trains");
  if (!candidate.expert_places.empty()) refuse("does not go with placed experts");
  if (workload.gradient_dtype != workload.dtype && workload.gradient_dtype != Dtype::Fp32) {
    refuse(fmt::format("gradients in {} of weights in {} are not executed; try -C workload.gradient_dtype={}",
                       name(workload.gradient_dtype), name(workload.dtype), name(workload.dtype)));
  }
  if (workload.optimizer_dtype != Dtype::Fp32) refuse("moments in 16 bits are not executed");
  if (workload.main_weights != MainWeights::Separate)
    refuse("weights without fp32 copies of their own are not executed; try -C workload.main_weights=separate");
  if (workload.fp8_activation_inputs) refuse("inputs of activation functions in fp8 are not executed");
  const Moe& moe = std::get<Moe>(moe_of(model, layer).first->ffn);
  if (moe.latent_size == 0) out.moe.shared = moe.shared;
  out.is_step = true;
  // Around projections to a latent, or of several residual streams, norms are not those of the rows that are executed.
  if (moe.latent_size == 0 && model.residual_streams == 1) out.norm = model.norm;
  out.candidate.degrees.edp = candidate.degrees.edp;
  fit_replicas(out.candidate.degrees);
  return out;
}

std::vector<std::string> left_out(const ModelSpec& model, const LayerCase& layer, std::optional<std::int64_t> number) {
  const LayerSpec& spec = *moe_of(model, number).first;
  const Moe& moe = std::get<Moe>(spec.ffn);
  std::vector<std::string> out;
  const auto add = [&](const char* part, bool is_there) {
    if (is_there) out.emplace_back(part);
  };
  add(layer.norm ? "attention with its norm and weights" : "attention and its weights", has_mixer(spec));
  add("norms", !layer.norm);
  add("residual stream", !layer.norm);
  add("projections to and from the latent", moe.latent_size > 0);
  add("shared experts", moe.shared.hidden_size > 0 && layer.moe.shared.hidden_size == 0);
  add("gate of the shared experts", moe.shared_gate);
  add("biases", moe.expert.bias || moe.router_bias);
  const bool has_replicas = layer.is_step || layer.workload.mode == Mode::Train;
  add("reduction of gradients", has_replicas && !layer.is_step);
  add("optimizer", has_replicas && !layer.is_step);
  return out;
}

LayerCase scaled(const LayerCase& layer, std::int64_t by) {
  if (by == 1) return layer;
  if (!layer.candidate.expert_places.empty()) fail("--scale", "does not go with placed experts");
  LayerCase out = layer;
  Degrees& d = out.candidate.degrees;
  if (d.ep % by != 0) fail("--scale", fmt::format("{} does not divide the plan's expert-parallel size {}", by, d.ep));
  d.ep /= by;
  layer.is_step ? fit_replicas(d) : fit_world(d);
  out.moe.num_experts = std::max(ceil_div(layer.moe.num_experts, by), d.ep);
  out.moe.top_k = std::min(layer.moe.top_k, out.moe.num_experts);
  constexpr std::int64_t kBlock = 4;  // values in a block of zfp
  // Synthetic tokens with the planned choices need one value per expert.
  out.hidden_size = rounded_up(std::max(ceil_div(layer.hidden_size, by), out.moe.num_experts), kBlock);
  out.moe.expert.hidden_size = rounded_up(ceil_div(layer.moe.expert.hidden_size, by), kBlock * d.esp);
  out.moe.shared.hidden_size = rounded_up(ceil_div(layer.moe.shared.hidden_size, by), kBlock * d.tp);
  out.tokens = rounded_up(ceil_div(layer.tokens, by), d.tp);
  return out;
}

LayerCase as_executed(LayerCase layer, bool on_gpus) {
  ExpertLayout& layout = layer.workload.expert_layout;
  if (layout != ExpertLayout::BySource) layout = on_gpus ? ExpertLayout::Sorted : ExpertLayout::Merged;
  return layer;
}

Program lower(const LayerCase& layer) {
  if (const auto reason =
          layer_infeasibility(layer.hidden_size, layer.workload, layer.candidate, layer.ranks_per_node)) {
    fail("", fmt::format("cannot be lowered: {}", reason->text));
  }
  if (layer.is_step) {
    return lower_layer_step(layer.moe, layer.norm, layer.hidden_size, layer.tokens, layer.workload, layer.candidate,
                            layer.ranks_per_node);
  }
  return lower_moe_layer(layer.moe, layer.hidden_size, layer.tokens, layer.workload, layer.candidate,
                         layer.ranks_per_node);
}

RoutingCounts asked_counts(const LayerCase& layer, const Program& program) {
  const std::int64_t tokens = layer.tokens_of_source(), experts = layer.moe.num_experts;
  if (layer.workload.capacity_factor) {
    std::vector<std::int64_t> row;
    for (std::int64_t e = 0; e < experts; ++e) row.push_back(part(layer.moe.top_k * tokens, e, experts));
    return RoutingCounts::by_expert(program.ranks_per_stage(), std::move(row));
  }
  // Selections that a topology gate redirected are made for the final expert from the start.
  if (layer.workload.gate.kind == GateKind::Topology) {
    const RoutingTable& table = program.routings.front();
    std::vector<std::int64_t> counts;
    for (std::int64_t source = 0; source < table.counts.sources(); ++source) {
      const auto own = selections_by_expert(table, RankId(static_cast<std::int32_t>(source)));
      counts.insert(counts.end(), own.begin(), own.end());
    }
    return RoutingCounts::dense(table.counts.sources(), experts, std::move(counts));
  }
  return routing_counts(layer.moe, layer.workload, tokens, layer.candidate.degrees);
}

Node layer_case_document(const LayerCase& layer) {
  Node d = Node::map();
  d.set("num_experts", Node::integer(layer.moe.num_experts));
  d.set("top_k", Node::integer(layer.moe.top_k));
  d.set("ffn_size", Node::integer(layer.moe.expert.hidden_size));
  d.set("gated", Node::boolean(layer.moe.expert.gated));
  d.set("hidden_size", Node::integer(layer.hidden_size));
  d.set("tokens", Node::integer(layer.tokens));
  d.set("ranks_per_node", Node::integer(layer.ranks_per_node));
  d.set("step", Node::boolean(layer.is_step));
  if (layer.norm) d.set("norm", Node::text(std::string(name_of<Norm>(kNormNames, *layer.norm))));
  d.set("shared_ffn_size", Node::integer(layer.moe.shared.hidden_size));
  d.set("shared_gated", Node::boolean(layer.moe.shared.gated));
  d.set("decision", decision_document(layer.candidate));
  d.set("workload", workload_document(layer.workload));
  return d;
}

LayerCase read_layer_case(const Node& document) {
  Diagnostics wrong;
  MapReader d(document, "", wrong);
  LayerCase out{};
  out.moe = {.num_experts = d.integer("num_experts", 1, ModelLimits::kExperts),
             .top_k = d.integer("top_k", 1, ModelLimits::kExperts),
             .expert = {.hidden_size = d.integer("ffn_size", 1, ModelLimits::kHiddenSize),
                        .gated = d.boolean("gated"),
                        .bias = false},
             .shared = {.hidden_size = d.integer("shared_ffn_size", 0, ModelLimits::kHiddenSize),
                        .gated = d.boolean("shared_gated"),
                        .bias = false},
             .shared_gate = false,
             .router_bias = false};
  out.hidden_size = d.integer("hidden_size", 1, ModelLimits::kHiddenSize);
  out.tokens = d.integer("tokens", 1);
  out.ranks_per_node = d.integer("ranks_per_node", 1);
  out.is_step = d.boolean("step");
  if (d.has("norm")) out.norm = d.choice<Norm>("norm", kNormNames);
  out.candidate = read_decision(d.map("decision"));
  const MapReader workload = d.map("workload");
  d.finish();
  wrong.throw_if_any();
  out.workload = read_workload(workload.node());
  return out;
}

std::string layer_text(const LayerCase& layer) {
  const Ffn& shared = layer.moe.shared;
  return fmt::format(
      "{} experts, {} per token, {} x {}{}{}, {} tokens per rank", layer.moe.num_experts, layer.moe.top_k,
      layer.hidden_size, layer.moe.expert.hidden_size, layer.moe.expert.gated ? " gated" : "",
      shared.hidden_size > 0 ? fmt::format(", shared expert of {}", shared.hidden_size) : "", layer.tokens_of_source());
}

}  // namespace moeplan::planner
