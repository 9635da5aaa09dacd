// What a map of experts gains and costs in serving: time of the MoE layers in a prefill, memory, migration.
#pragma once

#include <cstdint>
#include <optional>

#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/eplb/expert_map.hpp"

namespace moeplan::planner {

struct BalancePayoff {
  Seconds before{}, after{};       // of all MoE layers in a forward pass, by the closed form of layer_time.hpp
  Bytes redundant_memory;          // a GPU: weights of redundant experts in all layers
  Bytes free_memory;               // a GPU: what weights of the map leave
  Bytes kv_cache_per_token;        // of all layers, on the GPU that keeps it; 0 if no layer has one
  std::int64_t moved_experts = 0;  // physical experts that have to be sent, all layers
  Seconds migration{};             // from contiguous experts, all layers one after the other

  [[nodiscard]] Seconds gain() const { return before - after; }
  /// Forward passes after which the gain exceeds the migration; none if there is no gain.
  [[nodiscard]] std::optional<double> break_even() const {
    if (gain() <= Seconds(0)) return std::nullopt;
    return migration / gain();
  }
};

/// The payoff of the map over contiguous experts for a forward pass of `tokens` tokens on every GPU, whose attention is
/// data-parallel. The loads' proportions are those of every GPU's tokens.
[[nodiscard]] BalancePayoff balance_payoff(const ExpertMap& map, const ExpertLoads& loads, const ModelSpec& model,
                                           const Workload& workload, const Cluster& cluster, std::int64_t tokens);

/// The map with one row for each layer of the model: rows are the layers themselves, or its MoE layers in order. Raises
/// InputError if they are neither, or if the experts are not the model's.
[[nodiscard]] ExpertLoads by_layer_of(const ExpertLoads& loads, const ModelSpec& model, const std::string& file);

}  // namespace moeplan::planner
