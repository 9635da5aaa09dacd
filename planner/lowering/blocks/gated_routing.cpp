#include "planner/lowering/blocks/gated_routing.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>

#include "model/base/whole_numbers.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/layer/block_builder.hpp"

namespace moeplan::planner {

namespace {

/// Whether the holder of an expert in the source's expert-parallel group is on the source's node.
IsNear same_node(const Candidate& candidate, std::int64_t num_experts, std::int64_t ranks_per_node) {
  Program scratch;
  const Groups groups = add_groups(scratch, candidate.degrees, candidate.rank_order);
  const GroupFamily holders = scratch.group(groups.ep);
  return [=](RankId source, ExpertId expert) {
    const std::int64_t position = expert.value() * holders.size / num_experts;  // the part of share_begin()
    return holders.member(source, position).value() / ranks_per_node == source.value() / ranks_per_node;
  };
}

}  // namespace

RoutingCounts routing_counts(const Moe& moe, const Workload& workload, std::int64_t tokens_per_rank,
                             const Degrees& degrees, std::size_t kind) {
  if (workload.capacity_factor) {
    const double capacity = std::ceil(static_cast<double>(moe.top_k) * *workload.capacity_factor *
                                      static_cast<double>(tokens_per_rank) / static_cast<double>(moe.num_experts));
    return RoutingCounts::uniform(degrees.ranks_per_stage(), moe.num_experts, static_cast<std::int64_t>(capacity));
  }
  if (workload.recorded)
    return recorded_counts(*workload.recorded, kind, degrees.ranks_per_stage(), tokens_per_rank, moe.top_k);
  const std::int64_t held = ceil_div(moe.num_experts, degrees.ep);
  return make_routing(workload.routing, degrees.ranks_per_stage(), moe.num_experts, tokens_per_rank, moe.top_k, held);
}

GatedRouting gated_routing(const Moe& moe, const Workload& workload, std::int64_t tokens_per_rank,
                           const Candidate& candidate, std::int64_t ranks_per_node, std::size_t kind) {
  const Degrees& d = candidate.degrees;
  const Gate& gate = workload.gate;
  RoutingCounts asked = routing_counts(moe, workload, tokens_per_rank, d, kind);
  if (gate.kind == GateKind::Topology) {
    assert(gate.net_over_local && "infeasibility() has said so");
    return topology_gated(asked, moe.top_k, *gate.net_over_local, std::min(ranks_per_node, d.ranks_per_stage()),
                          same_node(candidate, moe.num_experts, ranks_per_node));
  }
  if (gate.kind == GateKind::Capacity) {
    return capacity_gated(asked, moe.top_k, tokens_per_rank, gate.factor, gate.is_padded,
                          LayerStrategy::of(candidate, kind).pipeline_degree * d.esp);
  }
  return {.counts = std::move(asked)};
}

GateEffect gate_effect(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                       std::int64_t ranks_per_node) {
  const Degrees& d = candidate.degrees;
  const std::int64_t tokens = candidate.micro_batch * (workload.sequence_length / d.cp) / d.tp;
  const std::int64_t microbatches = workload.global_batch / (d.dp * candidate.micro_batch);
  GateEffect sum;
  const std::vector<Moe> layers = moe_layers(model);
  const std::vector<std::size_t> kinds = routing_kinds(model, workload.recorded.has_value());
  std::map<std::size_t, std::int64_t> layers_of_kind;
  for (const std::size_t kind : kinds) ++layers_of_kind[kind];
  for (const auto& [kind, count] : layers_of_kind) {
    const auto first = static_cast<std::size_t>(std::find(kinds.begin(), kinds.end(), kind) - kinds.begin());
    const GatedRouting one = gated_routing(layers[first], workload, tokens, candidate, ranks_per_node, kind);
    const auto times = static_cast<double>(count * microbatches);
    sum.selections += times * static_cast<double>(one.selections);
    sum.rerouted += times * static_cast<double>(one.rerouted);
    sum.dropped += times * static_cast<double>(one.dropped);
    sum.padding += times * static_cast<double>(one.padding);
  }
  if (sum.selections == 0) return {};
  return {sum.selections, sum.rerouted / sum.selections, sum.dropped / sum.selections, sum.padding / sum.selections};
}

}  // namespace moeplan::planner
