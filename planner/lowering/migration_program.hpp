// Moving experts between two iterations as a Program of its own: what `explain` prices once, before a placement gains
// anything. Layer by layer, weights and then the optimizer's states, each an all-to-all in which every rank sends what
// others hold from now on (placement/migration.hpp). No computation goes beside it.
#pragma once

#include <cstdint>
#include <vector>

#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// From the placements `from` (by kind of routing; empty: contiguous) to those of the candidate. Optimizer states, and
/// weights that replicas share out (ZeRO), are a rank's part. Without blocks where nothing moves.
[[nodiscard]] Program migration_program(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                                        const std::vector<Placement>& from, std::int64_t ranks_per_node);

}  // namespace moeplan::planner
