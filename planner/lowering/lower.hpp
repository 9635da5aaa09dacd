// Lowering: model, workload and one candidate to a Program.
#pragma once

#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// One whole iteration: every microbatch forward and (in training) backward, then gradients and optimizer.
/// `infeasibility()` must be none.
/// `ranks_per_node` shapes the rings of collectives (Program::ranks_per_node).
[[nodiscard]] Program lower_iteration(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                      std::int64_t ranks_per_node);

/// The forward and backward pass of one MoE layer alone (two blocks), without norm, residual and gradient traffic: what
/// Parm measures. `tokens` rows on every rank. The routing is that of `kind`. Copies of placed experts get their
/// weights before the experts run and send gradients home at the end, unless `moves_copies` is off: then it is one of
/// the microbatches in which they stay.
[[nodiscard]] Program lower_moe_layer(const Moe& moe, std::int64_t hidden_size, std::int64_t tokens,
                                      const Workload& workload, const Candidate& candidate, std::int64_t ranks_per_node,
                                      bool moves_copies = true, std::size_t kind = 0);

}  // namespace moeplan::planner
