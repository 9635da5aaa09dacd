// The migration of experts between two iterations as a Program, with which `explain` prices the one-time cost of a
// placement. Layer by layer, weights and then optimizer states move in an all-to-all in which every rank sends what
// other ranks hold from now on (placement/migration.hpp). No computation runs concurrently.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// The migration from the placements `from` (by kind of routing; empty: contiguous) to the candidate's. For optimizer
/// states, and for weights that are sharded over replicas (ZeRO), a rank sends its own shard. Without blocks if nothing
/// moves.
[[nodiscard]] Program migration_program(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                        const std::vector<Placement>& from, std::int64_t ranks_per_node);

}  // namespace moeplan::planner
