// A training step of the feed-forward part of one MoE layer, as executors run it.
#pragma once

#include <cstdint>

#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// The Program of one microbatch's forward and backward pass through the routed and the shared experts, from "ffn.in"
/// to "moe.out" and from "d.moe.out" to "d.ffn.in", of the reduction of all their gradients over replicas, and of the
/// optimizer. Weights and gradients are parts of the flat buffers that replicas exchange (replica_parts.hpp); with
/// ZeRO, weights are gathered first. Arguments are those of lower_moe_layer(); the workload trains, and no expert has
/// copies.
[[nodiscard]] Program lower_layer_step(const Moe& moe, std::int64_t hidden_size, std::int64_t tokens,
                                       const Workload& workload, const Candidate& candidate,
                                       std::int64_t ranks_per_node);

}  // namespace moeplan::planner
