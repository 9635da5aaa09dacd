#include "planner/lowering/blocks/lowering_context.hpp"

#include <algorithm>
#include <utility>

#include "planner/lowering/blocks/gated_routing.hpp"
#include "planner/placement/slots.hpp"
#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

LoweringContext::LoweringContext(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                 std::int64_t ranks_per_node)
    : model_(model),
      workload_(workload),
      candidate_(candidate),
      tokens_(candidate.micro_batch * workload.sequence_length / candidate.degrees.cp) {
  program_.world_size = degrees().world();
  program_.ranks_per_node = ranks_per_node;
  program_.has_persistent_products = workload.pytorch_modules != PyTorchModules::None;
  groups_ = add_groups(program_, degrees(), candidate.rank_order);
  const PlacementStrategy* strategy = &*candidate.placement;
  replans_ = trains() && strategy != nullptr && strategy->replans();
  has_blocking_transfers_ = trains() && strategy != nullptr && strategy->has_blocking_transfers() && degrees().pp == 1;
}

bool LoweringContext::has_blocking_transfers(std::size_t routing) const {
  return has_blocking_transfers_ && !schedule_of(routing).tutel_r();
}

bool LoweringContext::has_replicas() const {
  return program_.group(groups_.dp_cp).size > 1 || program_.group(groups_.edp).size > 1;
}

DenseParts LoweringContext::dense(BlockBuilder& block, const LayerSpec* layer, Recompute recompute) const {
  return {model_, workload_, degrees(), groups_, tokens_, candidate_.sequence_parallel, block, layer, recompute};
}

MoeLayer LoweringContext::moe_layer(const Moe& moe, std::size_t routing, Recompute recompute, std::int64_t tokens) {
  const LayerStrategy run = LayerStrategy::of(candidate_, routing);
  // With sequence parallelism every rank has tokens of its own, as without tensor parallelism.
  MoeLayer layer{.moe = moe,
                 .hidden_size = moe.row_columns(model_.hidden_size),
                 .gate_columns = model_.hidden_size,
                 .tokens = tokens,
                 .dtype = workload_.dtype,
                 .precision = workload_.precision,
                 .fusions = workload_.fusions,
                 .trains = trains(),
                 .recompute_activations = recompute.has(RecomputeModule::MoeActivation),
                 .keeps_activation_inputs_in_fp8 = trains() && workload_.fp8_activation_inputs,
                 .degrees = degrees(),
                 .groups = groups_,
                 .routing = {},
                 .all_to_all = &*run.all_to_all,
                 .dispatcher_sms = candidate_.dispatcher_sms,
                 .codec = run.codec,
                 .codec_options = workload_.codecs,
                 .chunks = {},
                 .encoding = workload_.encoding,
                 .weighs_in_experts = workload_.gate_weights == GateWeights::InExperts,
                 .has_megatron_kernels = moeplan::has_megatron_kernels(workload_),
                 .eager = workload_.pytorch_modules == PyTorchModules::Eager,
                 .host_reads_loads = trains() && !workload_.capacity_factor &&
                                     !workload_.cuda_graphs.has(GraphModule::WholeIteration) &&
                                     !run.all_to_all->is_fused(),
                 .expert_layout = workload_.expert_layout,
                 .during_dispatch = {}};
  if (candidate_.sequence_parallel) {
    layer.tokens = tokens / degrees().tp;
    layer.degrees.tp = 1;
    layer.groups.tp = groups_.own;
  }
  const std::int64_t chunks = run.pipeline_degree * run.all_to_all->fused_parts();
  for (std::int64_t i = 0; i < chunks; ++i) layer.chunks.push_back({RowStep::Kind::Chunk, {}, i, chunks});
  const auto [known, is_new] = routings_.try_emplace(routing, program_.routings.size());
  layer.routing = known->second;
  if (is_new) program_.routings.push_back(routing_table(moe, routing, tokens));
  return layer;
}

MoeLayer LoweringContext::executed_layer(const Moe& moe, std::size_t routing, std::int64_t tokens) {
  MoeLayer layer = moe_layer(moe, routing, recompute(), tokens);
  layer.has_megatron_kernels = layer.host_reads_loads = layer.keeps_activation_inputs_in_fp8 = layer.eager = false;
  layer.fusions = Fusions::Default;
  return layer;
}

RoutingTable LoweringContext::routing_table(const Moe& moe, std::size_t routing, std::int64_t tokens) const {
  RoutingCounts counts =
      gated_routing(moe, workload_, tokens / degrees().tp, candidate_, program_.ranks_per_node, routing).counts;
  const ExpertGroups groups{moe.expert_groups, moe.groups_per_token};
  if (candidate_.expert_places.empty()) return {std::move(counts), groups_.ep, moe.top_k, {}, groups};
  const GroupFamily& holders = program_.group(groups_.ep);
  PlacedRouting table = placed(counts, candidate_.expert_places[routing], holders, members_per_node(program_, holders));
  return {std::move(table.counts), groups_.ep, moe.top_k, std::move(table.slots), groups};
}

const Schedule& LoweringContext::schedule_of(std::size_t routing) const {
  return *LayerStrategy::of(candidate_, routing).schedule;
}

std::int64_t LoweringContext::shadowed(std::size_t routing) const {
  if (candidate_.expert_places.empty()) return 0;
  const std::vector<ExpertPlacement>& places = candidate_.expert_places[routing].experts;
  return std::count_if(places.begin(), places.end(), [](const ExpertPlacement& p) { return p.holders.size() > 1; });
}

bool LoweringContext::has_copies(std::size_t routing) const { return shadowed(routing) > 0; }

std::int64_t LoweringContext::search_launches(std::size_t routing) const {
  return (*candidate_.placement).search_launches(shadowed(routing));
}

}  // namespace moeplan::planner
