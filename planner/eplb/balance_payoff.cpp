#include "planner/eplb/balance_payoff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "model/base/diagnostics.hpp"
#include "model/base/to_index.hpp"
#include "model/workload/routing.hpp"
#include "planner/placement/layer_time.hpp"
#include "planner/placement/migration.hpp"
#include "planner/search/place_experts.hpp"

namespace moeplan::planner {

namespace {

/// Every GPU's selections in the loads' proportions, rounded down to whole tokens, and the rest to the first experts.
RoutingCounts counts_of(const std::vector<std::int64_t>& loads, std::int64_t gpus, std::int64_t selections) {
  const double all = static_cast<double>(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}));
  std::vector<std::int64_t> row;
  std::int64_t left = selections;
  for (const std::int64_t load : loads) {
    row.push_back(static_cast<std::int64_t>(static_cast<double>(load) / all * static_cast<double>(selections)));
    left -= row.back();
  }
  for (std::size_t e = 0; left > 0; e = (e + 1) % row.size(), --left) ++row[e];
  return RoutingCounts::by_expert(gpus, std::move(row));
}

/// Values that a token adds to the cache of a layer. Windows count as if they kept all tokens; the states of
/// recurrences do not grow.
struct CachedValues {
  double operator()(const HeadAttention& a) const {
    return static_cast<double>(a.num_kv_heads * (a.head_dim + a.value_dim()));
  }
  double operator()(const LatentAttention& a) const {
    return static_cast<double>(a.kv_lora_rank + a.qk_rope_head_dim + index_keys(a.indexer));
  }
  /// An entry that is both key and value for every `compression` tokens.
  double operator()(const CompressedAttention& a) const {
    return static_cast<double>(a.head_dim + index_keys(a.indexer)) /
           static_cast<double>(std::max<std::int64_t>(1, a.compression));
  }
  double operator()(const GatedDeltaNet&) const { return 0; }
  double operator()(const Mamba2&) const { return 0; }
  double operator()(const NoMixer&) const { return 0; }

  static std::int64_t index_keys(const std::optional<Indexer>& indexer) {
    return indexer && !indexer->is_shared ? indexer->head_dim : 0;
  }
};

Bytes kv_cache_per_token(const ModelSpec& model, Dtype dtype) {
  double values = 0;
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern)
      values += static_cast<double>(run.repeat) * std::visit(CachedValues{}, mixer_of(model, layer));
  }
  return Bytes(values * static_cast<double>(size_of(dtype)));
}

std::vector<bool> moe_rows(const ModelSpec& model) {
  std::vector<bool> out;
  for (const RepeatedLayers& run : model.layers) {
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      for (const LayerSpec& layer : run.pattern) out.push_back(std::holds_alternative<Moe>(layer.ffn));
    }
  }
  return out;
}

}  // namespace

BalancePayoff balance_payoff(const ExpertMap& map, const ExpertLoads& loads, const ModelSpec& model,
                             const Workload& workload, const Cluster& cluster, std::int64_t tokens) {
  Candidate candidate;
  candidate.degrees = {.dp = map.shape.gpus, .ep = map.shape.gpus};
  const std::vector<PlacedLayer> placed = placed_layers(model, workload, cluster, candidate, /*redundant_experts=*/0);
  PlacementDevices devices = placed.front().devices;
  const Moe& moe = placed.front().moe;
  const ExpertMap contiguous = contiguous_map(loads, map.shape);
  devices.slots = std::max(map.slots_per_gpu(), contiguous.slots_per_gpu());
  BalancePayoff out;
  for (std::size_t l = 0; l < map.physical_to_logical.size(); ++l) {
    if (!map.is_moe[l]) continue;
    const RoutingCounts counts = counts_of(loads.layers[l], map.shape.gpus, tokens * moe.top_k);
    const Placement before = placement_of(contiguous, l), after = placement_of(map, l);
    out.before += layer_time(counts, before, devices).total;
    out.after += layer_time(counts, after, devices).total;
    out.moved_experts += std::ssize(expert_moves(before, after, devices.ranks_per_node, devices.trains));
    out.migration += migration_time(before, after, devices);
  }
  const double moe_layers = static_cast<double>(loads.moe_layers());
  const auto slots = [&](const ExpertMap& m) { return static_cast<double>(m.slots_per_gpu()); };
  out.redundant_memory = moe_layers * (slots(map) - slots(contiguous)) * devices.parameter_bytes;
  const ParameterCounts parameters = count_parameters(model);
  const double routed = static_cast<double>(expert_parameters(moe, model.hidden_size)) *
                        static_cast<double>(moe.num_experts) * moe_layers;
  const Bytes dense((static_cast<double>(parameters.total) - routed) * static_cast<double>(size_of(workload.dtype)));
  out.free_memory = cluster.memory_per_rank() - dense - moe_layers * slots(map) * devices.parameter_bytes;
  out.kv_cache_per_token = kv_cache_per_token(model, workload.dtype);
  return out;
}

ExpertLoads by_layer_of(const ExpertLoads& loads, const ModelSpec& model, const std::string& file) {
  const std::vector<bool> is_moe = moe_rows(model);
  if (model.num_moe_layers() == 0) throw_input_error({file}, "", model.name + " has no experts");
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      const Moe* moe = std::get_if<Moe>(&layer.ffn);
      if (moe && moe->num_experts != loads.experts()) {
        throw_input_error({file}, "",
                          fmt::format("has {} experts, {} has {}", loads.experts(), model.name, moe->num_experts));
      }
    }
  }
  if (loads.layers.size() == is_moe.size()) return loads;
  if (std::ssize(loads.layers) != model.num_moe_layers()) {
    throw_input_error({file}, "",
                      fmt::format("has {} layers, {} has {}, {} of them with experts", loads.layers.size(), model.name,
                                  is_moe.size(), model.num_moe_layers()));
  }
  ExpertLoads out{{}, loads.form};
  auto next = loads.layers.begin();
  for (const bool moe : is_moe)
    out.layers.push_back(moe ? *next++ : std::vector<std::int64_t>(to_index(loads.experts()), 0));
  return out;
}

}  // namespace moeplan::planner
