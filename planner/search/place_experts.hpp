// Who holds which expert in a candidate: strategies of planner/placement asked for all MoE layers of a model, on the
// machine as they see it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"
#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

/// A kind of MoE layer (routing_kinds()) on the ranks of one expert-parallel group.
struct PlacedLayer {
  Moe moe;
  std::int64_t layers = 0;  // of this kind in the model
  RoutingCounts counts;     // of one microbatch, by position in the group, over all groups
  PlacementDevices devices;
};
/// `cluster` has a GPU for every rank of a stage of the candidate, or more: the first ones are looked at. Bandwidths
/// are those of the ways between the first ranks of nodes; tokens take what a grouped product of the mean load takes;
/// attention's products stand for what a block computes besides (assumed). Transfers, once an iteration, count by
/// microbatch.
[[nodiscard]] std::vector<PlacedLayer> placed_layers(const ModelSpec& model, const Workload& workload,
                                                     const Cluster& cluster, const Candidate& candidate,
                                                     std::int64_t redundant_experts);

/// max/mean of the loads of ranks, the largest of all layers: 1 is even. `places` by kind of routing; empty:
/// contiguous.
[[nodiscard]] double imbalance(const std::vector<PlacedLayer>& layers, const std::vector<Placement>& places = {});
/// From this imbalance on placements are looked at. assumed: below it they are not worth it.
inline constexpr double kUnevenLoads = 1.05;

/// Whether a placement is judged by simulated layers: up to two kinds of routing, and stages of so many ranks (they
/// differ then, and are simulated one by one).
[[nodiscard]] bool may_simulate_placements(std::int64_t routing_kinds, const Candidate& candidate,
                                           std::int64_t most_ranks);

/// The candidate with experts placed by a strategy, or why there is none. `simulates`: what `auto` and fastermoe_priced
/// go by is the layer simulated, with its transfers by microbatch, instead of a closed form.
struct PlacedCandidate {
  Candidate candidate;
  std::string infeasibility;  // "" with a candidate
};
[[nodiscard]] PlacedCandidate with_placement(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                             const Candidate& base, std::string_view strategy,
                                             std::int64_t redundant_experts, bool simulates);

/// Whether its placements, where it has any, are what it would be without.
[[nodiscard]] bool holds_contiguous_experts(const Candidate& candidate);

/// Layer `kind` simulated alone, forward and backward: of one microbatch of `microbatches`, one of which moves weights
/// and gradients of copies.
[[nodiscard]] Seconds simulated_layer_time(const Moe& moe, std::int64_t hidden_size, std::int64_t tokens,
                                           const Workload& workload, const Candidate& candidate, const Cluster& cluster,
                                           std::int64_t microbatches, std::size_t kind = 0);

}  // namespace moeplan::planner
