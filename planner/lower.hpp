// Lowering: model, workload and one candidate to a Program.
#pragma once

#include <optional>
#include <string>

#include "model/program/program.hpp"
#include "model/specs/model_spec.hpp"
#include "model/specs/workload.hpp"
#include "planner/candidate.hpp"

namespace moeplan {

/// Parallel degrees that do not fit a model or a workload: a short reason for the count of rejections, or none.
/// Everything that lower_iteration() requires is checked here.
[[nodiscard]] std::optional<std::string> obstacle(const ModelSpec& model, const Workload& workload,
                                                  const Candidate& candidate, std::int64_t ranks_per_node = 1);

/// The part of it that is about how the MoE layers run: schedule, all-to-all, chunks and codec. "" if they can.
[[nodiscard]] std::string layer_obstacle(std::int64_t hidden_size, const Workload& workload, const Candidate& candidate,
                                         std::int64_t ranks_per_node);

/// One whole iteration: every microbatch forward and (in training) backward, then gradients and optimizer.
/// `obstacle()` must be none.
/// `ranks_per_node` shapes the rings of collectives (Program::ranks_per_node).
[[nodiscard]] Program lower_iteration(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                      std::int64_t ranks_per_node = 1);

/// The forward and backward pass of one MoE layer alone (two blocks), without norm, residual and gradient traffic: what
/// Parm measures. `tokens` rows on every rank. The routing is that of `kind`. Copies of placed experts get their
/// weights before the experts run and send gradients home at the end, unless `moves_copies` is off: then it is one of
/// the microbatches in which they stay.
[[nodiscard]] Program lower_moe_layer(const Moe& moe, std::int64_t hidden_size, std::int64_t tokens,
                                      const Workload& workload, const Candidate& candidate,
                                      std::int64_t ranks_per_node = 1, bool moves_copies = true, std::size_t kind = 0);

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

}  // namespace moeplan
