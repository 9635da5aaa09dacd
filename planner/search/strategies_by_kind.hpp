// A separate strategy for each kind of MoE layer: with loads recorded per layer, the best strategy for an evenly loaded
// layer need not be the best for a layer that waits for its most loaded rank.
#pragma once

#include <cstdint>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/search/layer_search.hpp"

namespace moeplan::planner {

/// The fastest strategy for the layers of each kind (routing_kinds()), each simulated alone. Empty if there is only one
/// kind, or if one strategy is the fastest for all. Every kind tries the candidate's own strategy and the eight fastest
/// strategies for the least and for the most evenly loaded kind. `cluster` has a GPU for every rank of one of the
/// candidate's stages; `asymmetric_rank_threshold` is LayerProblem's. The result does not depend on `threads`.
[[nodiscard]] std::vector<LayerStrategy> strategies_by_kind(const ModelSpec& model, const Workload& workload,
                                                            const Cluster& cluster, const Candidate& candidate,
                                                            const LayerSpace& space,
                                                            std::int64_t asymmetric_rank_threshold, int threads);

}  // namespace moeplan::planner
