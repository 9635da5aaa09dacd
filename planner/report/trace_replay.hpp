// Placement strategies replayed over a recorded routing, on the ranks of a cluster: one source of the trace a rank, all
// in one expert-parallel group.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/placement/strategies/replay.hpp"

namespace moeplan::planner {

/// The devices and costs of the model's first MoE layer, of which a rank has as many tokens as the mean source of the
/// trace. `cluster` has a rank for every source. Raises InputError if the model has no MoE layer or another number of
/// experts than the trace (named `name`).
[[nodiscard]] PlacementDevices trace_devices(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                             const RoutingTrace& trace, std::int64_t redundant_experts,
                                             const std::string& name);

/// The replay of one strategy, or why it has no placement for the trace's first layer.
struct StrategyReplay {
  std::string strategy;
  std::optional<Infeasibility> infeasibility = {};
  ReplayTable table = {};
};

/// Replays of the strategies, named as in strategy_text.hpp, in this order. `progress` is called with (done, total).
[[nodiscard]] std::vector<StrategyReplay> replays(const RoutingTrace& trace, std::span<const std::string> strategies,
                                                  const ReplayOptions& options,
                                                  const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace moeplan::planner
