// Expert placement for a candidate: applies the strategies of planner/placement to all MoE layers of a model.
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

/// The placement problem of one kind of MoE layer (routing_kinds()) on the ranks of one expert-parallel group.
struct PlacedLayer {
  Moe moe;
  std::int64_t layers = 0;  // number of layers of this kind in the model
  RoutingCounts counts;     // of one microbatch, by position in the group, over all groups
  PlacementDevices devices;
};
/// The placement problems of a candidate, by kind of routing. `cluster` has at least one GPU for every rank of a stage
/// of the candidate; the first ones are used. Bandwidths are those of the paths between the first ranks of nodes. The
/// time per token is that of a grouped matrix product with the mean load. The non-expert time of a block is that of
/// attention's matrix products (assumed). Transfers happen once per iteration and are divided by the number of
/// microbatches.
[[nodiscard]] std::vector<PlacedLayer> placed_layers(const ModelSpec& model, const Workload& workload,
                                                     const Cluster& cluster, const Candidate& candidate,
                                                     std::int64_t redundant_experts);

/// Largest over mean load of the ranks, the maximum over all layers; 1 is perfectly even. `places` by kind of routing;
/// empty: contiguous.
[[nodiscard]] double imbalance(const std::vector<PlacedLayer>& layers, const std::vector<Placement>& places = {});
/// Placements are considered only above this imbalance. assumed: there is no payoff below it.
inline constexpr double kUnevenLoads = 1.05;

/// The candidate with its experts placed, or the reason why there is no placement.
struct PlacedCandidate {
  Candidate candidate;
  std::optional<Infeasibility> infeasibility = {};  // if there is no placement
};
/// What `auto` and fastermoe_priced minimise.
enum class PlacementGoal {
  Iteration,   // a closed form of a layer within an iteration: training overlaps transfers with the neighbouring blocks
  LayerAlone,  // the same of a layer that runs alone: nothing overlaps its transfers
  Simulated    // the simulated time of the layer, with its transfers divided by the number of microbatches
};
/// The goal within an iteration: simulated only with at most two kinds of routing and stages of at most `most_ranks`
/// ranks, because ranks then differ and are simulated one by one.
[[nodiscard]] PlacementGoal goal_within_iteration(std::int64_t routing_kinds, const Candidate& candidate,
                                                  std::int64_t most_ranks);
/// The candidate `base` with its experts placed by `strategy`.
[[nodiscard]] PlacedCandidate with_placement(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                             const Candidate& base, const PlacementChoice& strategy,
                                             std::int64_t redundant_experts, PlacementGoal goal);

/// Whether the candidate's placements, if it has any, equal the contiguous one.
[[nodiscard]] bool holds_contiguous_experts(const Candidate& candidate);

/// The simulated time of layer `kind` alone, forward and backward, as a mean over `microbatches` microbatches, one of
/// which transfers the weights and gradients of copies.
[[nodiscard]] Seconds simulated_layer_time(const Moe& moe, std::int64_t hidden_size, std::int64_t tokens,
                                           const Workload& workload, const Candidate& candidate, const Cluster& cluster,
                                           std::int64_t microbatches, std::size_t kind = 0);

}  // namespace moeplan::planner
