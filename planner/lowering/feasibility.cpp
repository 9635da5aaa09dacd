#include "planner/lowering/feasibility.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "planner/candidate/stage_layout.hpp"
#include "planner/layer/schedule.hpp"

namespace moeplan::planner {

namespace {

/// Largest number of forward passes of a microbatch through a part of the model, over all stages. Each pass is written
/// out, so this bounds time and memory. Assumed: 16 stages with 4,096 microbatches, far more than in any published
/// training.
constexpr std::int64_t kMostPipelineTasks = 65'536;

using Reason = std::optional<Infeasibility>;

Reason multiple(std::int64_t of, std::int64_t divisor, const char* text) {
  if (of % divisor == 0) return std::nullopt;
  return Infeasibility(Constraint::Multiple, of, divisor, text);
}

Reason limit(std::int64_t most, std::int64_t needed, const char* text) {
  if (needed <= most) return std::nullopt;
  return Infeasibility(Constraint::Limit, most, needed, text);
}

Reason equal(std::int64_t has, std::int64_t needed, const char* text) {
  if (has == needed) return std::nullopt;
  return Infeasibility(Constraint::Equal, has, needed, text);
}

Reason exchange_infeasibility(const Schedule& schedule, const Candidate& candidate, std::int64_t ranks_per_node) {
  ExchangeFamily exchange = schedule.exchange(candidate.degrees);
  if (candidate.rank_order == RankOrder::ReplicasInner) exchange.family.stride *= candidate.degrees.edp;
  const ExchangeGroup group{exchange.family, members_per_node(ranks_per_node, exchange.family), exchange.shards};
  if (Reason reason = candidate.all_to_all->infeasibility(group)) return reason;
  return candidate.all_to_all->not_planned_with(group);
}

/// Checks what a fused dispatcher's kernels leave to decide.
Reason fused_infeasibility(const Workload& workload, const Candidate& candidate) {
  if (!candidate.all_to_all->is_fused()) return std::nullopt;
  if (candidate.schedule != "baseline") return "fused kernels order a layer themselves, as schedule baseline";
  if (candidate.ep_overlap) return "fused kernels leave no exchange to overlap";
  if (is_dense(workload.encoding)) return "dense encoding is not fused";
  return std::nullopt;
}

/// Largest number of counts by source and expert that are stored individually. assumed: their 128 MiB suffice for
/// 65,536 ranks and 256 experts.
constexpr std::int64_t kMostGatedCounts = std::int64_t{1} << 24;

Reason recorded_routing_infeasibility(const ModelSpec& model, const RecordedRouting& recorded, const Degrees& d) {
  const RoutingTrace& trace = recorded.counts;
  const std::vector<Moe> layers = moe_layers(model);
  const std::int64_t ranks = d.ranks_per_stage(), sources = trace.sources();
  if (Reason r = equal(trace.layers(), std::ssize(layers), "the recorded routing has another number of layers"))
    return r;
  for (const Moe& moe : layers) {
    if (Reason r = equal(trace.experts(), moe.num_experts, "the recorded routing has another number of experts"))
      return r;
  }
  constexpr const char* kSources = "the recorded routing has another number of sources";
  switch (recorded.sources) {
    case TraceMapping::None: return equal(sources, ranks, kSources);
    case TraceMapping::Sum: return multiple(sources, ranks, kSources);
    default: return multiple(ranks, sources, kSources);
  }
}

/// Largest number of ranks with placed experts, which differ and are analysed one by one. assumed: with more ranks an
/// iteration takes minutes.
constexpr std::int64_t kMostPlacedRanks = 1024;

Reason placement_infeasibility(const Candidate& candidate) {
  if (candidate.expert_places.empty()) return std::nullopt;
  if (candidate.schedule->gathers_all_experts()) return "placements do not change what tutel_r0 computes";
  return limit(kMostPlacedRanks, candidate.degrees.ranks_per_stage(), "too many ranks for placed experts");
}

/// Checks the expert placements of a plan file.
Reason expert_placement_infeasibility(const ModelSpec& model, const Workload& workload, const Candidate& candidate) {
  if (candidate.expert_places.empty()) return std::nullopt;
  const std::vector<Moe> layers = moe_layers(model);
  const std::vector<std::size_t> kinds = routing_kinds(model, workload.recorded.has_value());
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (kinds[l] >= candidate.expert_places.size()) continue;
    if (Reason r = equal(std::ssize(candidate.expert_places[kinds[l]].experts), layers[l].num_experts,
                         "the placement has another number of experts"))
      return r;
  }
  return equal(std::ssize(candidate.expert_places), number_of_routing_kinds(model, workload.recorded.has_value()),
               "the placement has another number of layers");
}

Reason gate_infeasibility(const ModelSpec& model, const Workload& workload, const Degrees& d) {
  if (workload.gate.kind != GateKind::Topology) return std::nullopt;
  if (!workload.gate.net_over_local) return "the topology gate needs net_over_local on this machine";
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      const Moe* moe = std::get_if<Moe>(&layer.ffn);
      if (!moe) continue;
      if (Reason r =
              limit(kMostGatedCounts / moe->num_experts, d.ranks_per_stage(), "too many ranks for a topology gate"))
        return r;
    }
  }
  return std::nullopt;
}

/// Checks the number of parts, or the layout.
Reason layout_infeasibility(const ModelSpec& model, const Candidate& candidate) {
  const PipelineLayout& layout = candidate.layout;
  const std::int64_t parts = candidate.degrees.pp * candidate.virtual_stages;
  if (layout.empty()) return limit(model.num_layers(), parts, "more pipeline parts than layers");
  if (Reason r = equal(std::ssize(layout.parts), parts, "the layout has another number of parts")) return r;
  if (Reason r = equal(layout.layers(), model.num_layers(), "the layout has another number of layers")) return r;
  return limit(model.num_mtp_layers, layout.mtp_layers(), "the layout has more mtp layers than the model");
}

/// Checks the division of a layer's token mixer among tensor- and context-parallel ranks.
struct MixerInfeasibility {
  const Degrees& d;

  Reason operator()(const HeadAttention& a) const {
    if (Reason r = multiple(a.num_heads, d.tp, "tp does not divide the attention heads")) return r;
    if (a.num_kv_heads % d.tp != 0 && d.tp % a.num_kv_heads != 0) return "tp and the key-value heads do not divide";
    return std::nullopt;
  }
  Reason operator()(const LatentAttention& a) const {
    if (Reason r = multiple(a.num_heads, d.tp, "tp does not divide the attention heads")) return r;
    return a.indexer ? limit(1, d.cp, "cp of sparse attention is not modelled") : std::nullopt;
  }
  Reason operator()(const CompressedAttention& a) const {
    if (Reason r = multiple(a.output_groups, d.tp, "tp does not divide the groups of the output projection")) return r;
    return limit(1, d.cp, "cp of compressed attention is not modelled");
  }
  Reason operator()(const GatedDeltaNet& n) const {
    if (Reason r = multiple(n.num_key_heads, d.tp, "tp does not divide the heads of linear attention")) return r;
    return limit(1, d.cp, "cp of linear attention is not modelled");
  }
  Reason operator()(const Mamba2& m) const {
    if (Reason r = multiple(m.num_groups, d.tp, "tp does not divide the groups of state-space layers")) return r;
    return limit(1, d.cp, "cp of state-space layers is not modelled");
  }
  Reason operator()(const NoMixer&) const { return std::nullopt; }
};

Reason mixers_infeasibility(const ModelSpec& model, const Degrees& d) {
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      if (Reason r = std::visit(MixerInfeasibility{d}, mixer_of(model, layer))) return r;
    }
  }
  return std::nullopt;
}

/// Checks the pipeline, and the division of the batch and of the sequence.
Reason division_infeasibility(const ModelSpec& model, const Workload& workload, const Candidate& candidate) {
  const Degrees& d = candidate.degrees;
  const std::int64_t parts = d.pp * candidate.virtual_stages;
  if (Reason r = equal(d.dp * d.cp * d.tp, d.edp * d.ep * d.esp, "dp cp tp is not edp ep etp")) return r;
  if (candidate.rank_order == RankOrder::ReplicasInner && d.esp > 1)
    return Infeasibility(Constraint::Limit, 1, d.esp, "tp-cp-dp-ep-pp needs whole experts");
  if (Reason r = layout_infeasibility(model, candidate)) return r;
  if (candidate.virtual_stages > 1 && d.pp == 1) return "virtual stages need a pipeline";
  if (Reason r = mixers_infeasibility(model, d)) return r;
  if (Reason r = multiple(workload.global_batch, d.dp, "dp does not divide the global batch")) return r;
  const std::int64_t batch = workload.global_batch / d.dp;
  if (Reason r = multiple(batch, candidate.micro_batch, "the micro batch does not divide a replica's batch")) return r;
  const std::int64_t microbatches = batch / candidate.micro_batch;
  if (candidate.pipeline == PipelineShape::V) {
    if (workload.mode == Mode::Forward) return "a V-shaped pipeline needs a backward pass";
    if (d.pp == 1) return "a V-shaped pipeline needs stages";
    if (Reason r = equal(candidate.virtual_stages, kPartsOfV, "a V-shaped pipeline has two parts a stage")) return r;
    if (Reason r = limit(microbatches, 2 * d.pp, "a V-shaped pipeline needs two microbatches a stage")) return r;
  } else if (candidate.virtual_stages > 1) {
    if (Reason r = multiple(microbatches, d.pp, "pp does not divide the microbatches")) return r;
  }
  if (d.pp > 1) {
    if (Reason r = limit(kMostPipelineTasks, parts * microbatches, "more microbatches than pipelines are planned with"))
      return r;
  }
  if (Reason r = multiple(workload.sequence_length, d.cp, "cp does not divide the sequence")) return r;
  const std::int64_t tokens = candidate.micro_batch * (workload.sequence_length / d.cp);
  if (Reason r = multiple(tokens, d.tp, "tp does not divide the tokens")) return r;
  if (candidate.ep_overlap) {
    if (workload.mode == Mode::Forward) return "overlap of microbatches needs a backward pass";
    if (d.pp > 1 && candidate.virtual_stages == 1) return "overlap of microbatches needs interleaved pipelines";
    if (workload.zero_stage > 1)
      return Infeasibility(Constraint::Limit, 1, workload.zero_stage, "overlap of microbatches needs whole gradients");
  }
  if (candidate.delays_weight_gradients && !candidate.ep_overlap)
    return "delayed weight gradients need overlap of microbatches";
  if (candidate.sequence_parallel && d.tp == 1)
    return Infeasibility(Constraint::Limit, 1, 2, "sequence parallelism needs tensor parallelism");
  return std::nullopt;
}

/// Checks the division of every layer's FFN or experts.
Reason ffn_infeasibility(const ModelSpec& model, const Degrees& d) {
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      if (const Ffn* ffn = std::get_if<Ffn>(&layer.ffn)) {
        if (Reason r = multiple(ffn->hidden_size, d.tp, "tp does not divide the dense FFN")) return r;
        continue;
      }
      const Moe& moe = std::get<Moe>(layer.ffn);
      if (Reason r = limit(moe.num_experts, d.ep, "ep exceeds the experts")) return r;
      if (Reason r = multiple(moe.expert.hidden_size, d.esp, "etp does not divide the expert's FFN")) return r;
      if (Reason r = multiple(moe.shared.hidden_size, d.tp, "tp does not divide the shared expert")) return r;
    }
  }
  if (model.num_moe_layers() == 0 && (d.ep > 1 || d.esp > 1))
    return Infeasibility(Constraint::Limit, 1, d.ep * d.esp, "the model has no experts");
  return std::nullopt;
}

/// Checks the strategies of all MoE layers.
Reason strategies_infeasibility(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                std::int64_t ranks_per_node) {
  if (candidate.runs.empty()) return layer_infeasibility(row_columns(model), workload, candidate, ranks_per_node);
  if (Reason r = equal(std::ssize(candidate.runs), number_of_routing_kinds(model, workload.recorded.has_value()),
                       "the plan says how layers of another number run"))
    return r;
  for (const LayerStrategy& run : candidate.runs) {
    if (Reason r = layer_infeasibility(row_columns(model), workload, run.in(candidate), ranks_per_node)) return r;
  }
  return std::nullopt;
}

Reason gate_weights_infeasibility(const Workload& workload, const Schedule& schedule, const Degrees& of_layer) {
  if (workload.gate_weights == GateWeights::AtSources) return std::nullopt;
  if (is_dense(workload.encoding)) return "dense encoding weighs rows at their sources";
  if (!schedule.takes_choices_along(of_layer)) {
    return Infeasibility(fmt::format("{} weighs rows at their sources{}", schedule.name(),
                                     of_layer.esp > 1 ? " where experts have shards" : ""));
  }
  return std::nullopt;
}

/// Checks the codecs of dispatch and combine with the all-to-all and the encoding of the rows.
Reason codecs_infeasibility(std::int64_t hidden_size, const Workload& workload, const Candidate& candidate,
                            const Degrees& of_layer) {
  const CodecPair& codec = candidate.codec;
  if (candidate.all_to_all->deduplicates()) {
    // Such a token's rows for an expert may be in several chunks and would be summed more than once.
    if (candidate.pipeline_degree > 1 && of_layer.tp > 1 && of_layer.esp > 1)
      return "tokens that several ranks have are not deduplicated in chunks";
    if (codec.combine) return "rows in a codec's format are not added up at the combine";
    if (is_dense(workload.encoding)) return "dense encoding weighs rows at their sources";
  }
  for (const std::optional<WireFormat>& format : {codec.dispatch, codec.combine}) {
    if (!format) continue;
    if (Reason r = codec_infeasibility(*format, workload, hidden_size)) return r;
  }
  const bool has_capacity =
      workload.capacity_factor || (workload.gate.kind == GateKind::Capacity && workload.gate.is_padded);
  if (is_dense(workload.encoding) && !has_capacity) return "dense encoding needs a capacity factor";
  return std::nullopt;
}

}  // namespace

std::optional<Infeasibility> infeasibility(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                           std::int64_t ranks_per_node) {
  const Degrees& d = candidate.degrees;
  if (Reason r = division_infeasibility(model, workload, candidate)) return r;
  if (Reason r = ffn_infeasibility(model, d)) return r;
  if (Reason r = gate_infeasibility(model, workload, d)) return r;
  if (workload.recorded && !workload.capacity_factor) {
    if (Reason r = recorded_routing_infeasibility(model, *workload.recorded, d)) return r;
  }
  if (Reason r = expert_placement_infeasibility(model, workload, candidate)) return r;
  return strategies_infeasibility(model, workload, candidate, ranks_per_node);
}

std::optional<Infeasibility> layer_infeasibility(std::int64_t hidden_size, const Workload& workload,
                                                 const Candidate& candidate, std::int64_t ranks_per_node) {
  const Schedule& schedule = *candidate.schedule;
  Degrees of_layer = candidate.degrees;
  if (candidate.sequence_parallel) of_layer.tp = 1;
  if (Reason r = schedule.infeasibility(of_layer, candidate)) return r;
  if (Reason r = exchange_infeasibility(schedule, candidate, ranks_per_node)) return r;
  if (Reason r = fused_infeasibility(workload, candidate)) return r;
  if (Reason r = gate_weights_infeasibility(workload, schedule, of_layer)) return r;
  if (Reason r = placement_infeasibility(candidate)) return r;
  return codecs_infeasibility(hidden_size, workload, candidate, of_layer);
}

}  // namespace moeplan::planner
