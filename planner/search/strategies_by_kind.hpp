// MoE layers of different kinds run differently: where loads are recorded layer by layer, what suits an even layer need
// not suit one that waits for its fullest rank.
#pragma once

#include <cstdint>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/search/layer_search.hpp"

namespace moeplan::planner {

/// The fastest way to run the layers of each kind (routing_kinds()), each simulated alone; empty where there is one
/// kind or all run best in the same way. Tried on every kind are the candidate's own way and those that are fastest for
/// the least and for the most even kind, eight of each; `cluster` has a GPU for every rank of one of its stages, and
/// `asymmetric_rank_threshold` is LayerProblem's. The result does not depend on `threads`.
[[nodiscard]] std::vector<LayerStrategy> strategies_by_kind(const ModelSpec& model, const Workload& workload,
                                                            const Cluster& cluster, const Candidate& candidate,
                                                            const LayerSpace& space,
                                                            std::int64_t asymmetric_rank_threshold, int threads);

}  // namespace moeplan::planner
