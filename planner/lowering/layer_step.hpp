// A training step of the feed-forward part of one MoE layer, with its norm and the residual stream, as executors run
// it.
#pragma once

#include <cstdint>
#include <optional>

#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// The Program of one microbatch's forward and backward pass through the norm before the layer, the routed and the
/// shared experts, and the addition of their result to the residual stream, from "x.mid" to "x" and back to "d.x"; of
/// the reduction of all gradients of weights over replicas; and of the optimizer. The gradient of "x" is given as that
/// of the experts' result, "d.moe.out", which is the same. Without a norm, which may be none, there is no residual
/// stream either: the passes are from "ffn.in" to "moe.out" and back to "d.ffn.in".
///
/// Weights and gradients are parts of the flat buffers that replicas exchange (replica_parts.hpp); with ZeRO, weights
/// are gathered first. The other arguments are those of lower_moe_layer(); the workload trains, and no expert has
/// copies. Nothing is in host memory.
[[nodiscard]] Program lower_layer_step(const Moe& moe, std::optional<Norm> norm, std::int64_t hidden_size,
                                       std::int64_t tokens, const Workload& workload, const Candidate& candidate,
                                       std::int64_t ranks_per_node);

}  // namespace moeplan::planner
