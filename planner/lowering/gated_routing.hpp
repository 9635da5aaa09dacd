// What the tokens of a plan's ranks ask of the experts, and what its gate makes of that.
#pragma once

#include "model/transformer/model_spec.hpp"
#include "model/workload/gate.hpp"
#include "model/workload/routing.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// What every rank's tokens ask of the experts: the scenario's counts, or those recorded of layer `kind`
/// (routing_kinds()), or with a capacity factor exactly T = ceil(k f tokens / E) rows from each source for each expert
/// (padded, as GShard does).
[[nodiscard]] RoutingCounts routing_counts(const Moe& moe, const Workload& workload, std::int64_t tokens_per_rank,
                                           const Degrees& degrees, std::size_t kind = 0);

/// The same behind the workload's gate (model/specs/gate.hpp), and what that did.
[[nodiscard]] GatedRouting gated_routing(const Moe& moe, const Workload& workload, std::int64_t tokens_per_rank,
                                         const Candidate& candidate, std::int64_t ranks_per_node, std::size_t kind = 0);

/// What the gate does in an iteration, over all MoE layers, as shares of what the plain top-k gate asks for.
struct GateEffect {
  double selections = 0;  // of all tokens in all layers: k a token and layer
  double rerouted = 0;    // share led to another expert
  double dropped = 0;     // share given up
  double padding = 0;     // rows of zeros over selections
};
[[nodiscard]] GateEffect gate_effect(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                     std::int64_t ranks_per_node);

}  // namespace moeplan::planner
