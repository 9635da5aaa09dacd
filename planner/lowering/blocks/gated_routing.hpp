// The routing of a plan's MoE layers: token counts by source and expert, before and after the gate.
#pragma once

#include "model/transformer/model_spec.hpp"
#include "model/workload/gate.hpp"
#include "model/workload/routing.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// The number of rows that each source requests from each expert: the scenario's counts, the recorded counts of layer
/// `kind` (routing_kinds()), or with a capacity factor exactly T = ceil(k f tokens / E) (padded, as in GShard).
[[nodiscard]] RoutingCounts routing_counts(const Moe& moe, const Workload& workload, std::int64_t tokens_per_rank,
                                           const Degrees& degrees, std::size_t kind = 0);

/// The counts after the workload's gate (model/workload/gate.hpp), and statistics of the gate's changes.
[[nodiscard]] GatedRouting gated_routing(const Moe& moe, const Workload& workload, std::int64_t tokens_per_rank,
                                         const Candidate& candidate, std::int64_t ranks_per_node, std::size_t kind = 0);

/// The effect of the gate in one iteration over all MoE layers, as fractions of the selections of a plain top-k gate.
struct GateEffect {
  double selections = 0;  // by all tokens in all layers: k per token and layer
  double rerouted = 0;    // fraction redirected to another expert
  double dropped = 0;     // fraction dropped
  double padding = 0;     // rows of zeros divided by selections
};
[[nodiscard]] GateEffect gate_effect(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                     std::int64_t ranks_per_node);

}  // namespace moeplan::planner
