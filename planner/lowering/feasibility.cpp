#include "planner/lowering/feasibility.hpp"

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

std::int64_t attention_heads(const ModelSpec& model) {
  return std::visit([](const auto& a) { return a.num_heads; }, model.attention);
}

bool shares_evenly(const ModelSpec& model, std::int64_t tp) {
  const auto* heads = std::get_if<HeadAttention>(&model.attention);
  return !heads || heads->num_kv_heads % tp == 0 || tp % heads->num_kv_heads == 0;
}

std::string exchange_infeasibility(const Schedule& schedule, const Candidate& candidate, std::int64_t ranks_per_node) {
  ExchangeFamily exchange = schedule.exchange(candidate.degrees);
  if (candidate.rank_order == kReplicasInnerRankOrder) exchange.family.stride *= candidate.degrees.edp;
  const AllToAll* all_to_all = find_all_to_all(candidate.all_to_all);
  assert(all_to_all && "names of all-to-alls are checked at the edge");
  const ExchangeGroup group{exchange.family, members_per_node(ranks_per_node, exchange.family), exchange.shards};
  const std::string reason = all_to_all->infeasibility(group);
  return reason.empty() ? all_to_all->not_planned_with(group) : reason;
}

/// Largest number of counts by source and expert that are stored individually. assumed: their 128 MiB suffice for
/// 65,536 ranks and 256 experts.
constexpr std::int64_t kMostGatedCounts = std::int64_t{1} << 24;

std::string recorded_routing_infeasibility(const ModelSpec& model, const RecordedRouting& recorded, const Degrees& d) {
  const RoutingTrace& trace = recorded.counts;
  const std::vector<Moe> layers = moe_layers(model);
  const std::int64_t ranks = d.ranks_per_stage();
  if (std::ssize(layers) != trace.layers()) return "the recorded routing has another number of layers";
  for (const Moe& moe : layers) {
    if (moe.num_experts != trace.experts()) return "the recorded routing has another number of experts";
  }
  const bool fits = recorded.sources == TraceMapping::None  ? ranks == trace.sources()
                    : recorded.sources == TraceMapping::Sum ? trace.sources() % ranks == 0
                                                            : ranks % trace.sources() == 0;
  return fits ? "" : "the recorded routing has another number of sources";
}

/// Largest number of ranks with placed experts, which differ and are analysed one by one. assumed: with more ranks an
/// iteration takes minutes.
constexpr std::int64_t kMostPlacedRanks = 1024;

std::string placement_infeasibility(const Candidate& candidate) {
  if (candidate.expert_places.empty()) return "";
  if (find_schedule(candidate.schedule)->gathers_all_experts())
    return "placements do not change what tutel_r0 computes";
  if (candidate.degrees.ranks_per_stage() > kMostPlacedRanks) return "too many ranks for placed experts";
  return "";
}

/// Checks the expert placements of a plan file.
std::string expert_placement_infeasibility(const ModelSpec& model, const Workload& workload,
                                           const Candidate& candidate) {
  if (candidate.expert_places.empty()) return "";
  const std::vector<Moe> layers = moe_layers(model);
  const std::vector<std::size_t> kinds = routing_kinds(model, workload.recorded.has_value());
  for (std::size_t l = 0; l < layers.size(); ++l) {
    if (kinds[l] < candidate.expert_places.size() &&
        std::ssize(candidate.expert_places[kinds[l]].experts) != layers[l].num_experts) {
      return "the placement has another number of experts";
    }
  }
  return std::ssize(candidate.expert_places) == number_of_routing_kinds(model, workload.recorded.has_value())
             ? ""
             : "the placement has another number of layers";
}

std::string gate_infeasibility(const ModelSpec& model, const Workload& workload, const Degrees& d) {
  if (workload.gate.kind != GateKind::Topology) return "";
  if (!workload.gate.net_over_local) return "the topology gate needs net_over_local on this machine";
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      const Moe* moe = std::get_if<Moe>(&layer.ffn);
      if (moe && d.ranks_per_stage() > kMostGatedCounts / moe->num_experts) return "too many ranks for a topology gate";
    }
  }
  return "";
}

}  // namespace

std::optional<std::string> infeasibility(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                         std::int64_t ranks_per_node) {
  const Degrees& d = candidate.degrees;
  if (d.dp * d.cp * d.tp != d.edp * d.ep * d.esp) return "dp cp tp is not edp ep esp";
  if (candidate.rank_order == kReplicasInnerRankOrder && d.esp > 1) return "tp-cp-dp-ep-pp needs whole experts";
  if (d.pp * candidate.virtual_stages > model.num_layers()) return "more pipeline parts than layers";
  if (candidate.virtual_stages > 1 && d.pp == 1) return "virtual stages need a pipeline";
  if (attention_heads(model) % d.tp != 0) return "tp does not divide the attention heads";
  if (!shares_evenly(model, d.tp)) return "tp and the key-value heads do not divide";
  if (workload.global_batch % d.dp != 0) return "dp does not divide the global batch";
  if (workload.global_batch / d.dp % candidate.micro_batch != 0)
    return "the micro batch does not divide a replica's batch";
  const std::int64_t microbatches = workload.global_batch / d.dp / candidate.micro_batch;
  if (candidate.virtual_stages > 1 && microbatches % d.pp != 0) return "pp does not divide the microbatches";
  if (d.pp > 1 && d.pp * candidate.virtual_stages * microbatches > kMostPipelineTasks)
    return "more microbatches than pipelines are planned with";
  if (workload.sequence_length % d.cp != 0) return "cp does not divide the sequence";
  if (candidate.micro_batch * (workload.sequence_length / d.cp) % d.tp != 0) return "tp does not divide the tokens";
  if (candidate.sequence_parallel && d.tp == 1) return "sequence parallelism needs tensor parallelism";
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      if (const Ffn* ffn = std::get_if<Ffn>(&layer.ffn)) {
        if (ffn->hidden_size % d.tp != 0) return "tp does not divide the dense FFN";
        continue;
      }
      const Moe& moe = std::get<Moe>(layer.ffn);
      if (d.ep > moe.num_experts) return "ep exceeds the experts";
      if (moe.expert.hidden_size % d.esp != 0) return "esp does not divide the expert's FFN";
      if (moe.shared.hidden_size % d.tp != 0) return "tp does not divide the shared expert";
    }
  }
  if (model.num_moe_layers() == 0 && (d.ep > 1 || d.esp > 1)) return "the model has no experts";
  if (const std::string reason = gate_infeasibility(model, workload, d); !reason.empty()) return reason;
  if (workload.recorded && !workload.capacity_factor) {
    if (const std::string reason = recorded_routing_infeasibility(model, *workload.recorded, d); !reason.empty())
      return reason;
  }
  if (const std::string reason = expert_placement_infeasibility(model, workload, candidate); !reason.empty())
    return reason;
  if (!candidate.runs.empty() &&
      std::ssize(candidate.runs) != number_of_routing_kinds(model, workload.recorded.has_value()))
    return "the plan says how layers of another number run";
  std::string reason;
  if (candidate.runs.empty()) reason = layer_infeasibility(model.hidden_size, workload, candidate, ranks_per_node);
  for (const LayerStrategy& run : candidate.runs) {
    if (reason.empty()) reason = layer_infeasibility(model.hidden_size, workload, run.in(candidate), ranks_per_node);
  }
  return reason.empty() ? std::nullopt : std::optional(std::move(reason));
}

std::string layer_infeasibility(std::int64_t hidden_size, const Workload& workload, const Candidate& candidate,
                                std::int64_t ranks_per_node) {
  const Schedule* schedule = find_schedule(candidate.schedule);
  assert(schedule && "schedule names are checked at the edge");
  Degrees of_layer = candidate.degrees;
  if (candidate.sequence_parallel) of_layer.tp = 1;
  if (const std::string reason = schedule->infeasibility(of_layer, candidate); !reason.empty()) return reason;
  if (const std::string reason = exchange_infeasibility(*schedule, candidate, ranks_per_node); !reason.empty()) {
    return reason;
  }
  if (const std::string reason = placement_infeasibility(candidate); !reason.empty()) return reason;
  const std::optional<CodecPair> codec = parse_codec_pair(candidate.codec);
  assert(codec && "names of codecs are checked at the edge");
  const bool adds_up_on_the_way = find_all_to_all(candidate.all_to_all)->deduplicates();
  // Such a token's rows for an expert may be in several chunks and would be summed more than once.
  if (adds_up_on_the_way && candidate.pipeline_degree > 1 && of_layer.tp > 1 && of_layer.esp > 1)
    return "tokens that several ranks have are not deduplicated in chunks";
  if (adds_up_on_the_way && codec->back) return "rows in a codec's format are not added up on the way back";
  if (adds_up_on_the_way && workload.encoding == Encoding::Dense) return "dense encoding weighs rows at their sources";
  for (const std::optional<WireFormat>& format : {codec->there, codec->back}) {
    if (!format) continue;
    if (const std::string reason = codec_infeasibility(*format, workload, hidden_size); !reason.empty()) return reason;
  }
  const bool has_capacity =
      workload.capacity_factor || (workload.gate.kind == GateKind::Capacity && workload.gate.is_padded);
  if (workload.encoding == Encoding::Dense && !has_capacity) return "dense encoding needs a capacity factor";
  return "";
}

}  // namespace moeplan::planner
