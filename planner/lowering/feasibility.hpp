// Feasibility checks for candidates.
#pragma once

#include <optional>

#include "model/base/infeasibility.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// The reason why a candidate cannot run, or none; memory is checked in planner/evaluation/evaluation.hpp. Its text is
/// short, because rejections are counted by text. Covers every precondition of lower_iteration().
[[nodiscard]] std::optional<Infeasibility> infeasibility(const ModelSpec& model, const Workload& workload,
                                                         const Candidate& candidate, std::int64_t ranks_per_node);

/// The part of infeasibility() that concerns the strategy of the MoE layers: schedule, all-to-all, chunks and codec.
/// None if they can run.
[[nodiscard]] std::optional<Infeasibility> layer_infeasibility(std::int64_t hidden_size, const Workload& workload,
                                                               const Candidate& candidate, std::int64_t ranks_per_node);

}  // namespace moeplan::planner
