// Feasibility checks for candidates.
#pragma once

#include <optional>
#include <string>

#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// The reason why a candidate cannot run, or none. It is short, because rejections are counted by reason. Covers every
/// precondition of lower_iteration().
[[nodiscard]] std::optional<std::string> infeasibility(const ModelSpec& model, const Workload& workload,
                                                       const Candidate& candidate, std::int64_t ranks_per_node);

/// The part of infeasibility() that concerns the strategy of the MoE layers: schedule, all-to-all, chunks and codec. ""
/// if they can run.
[[nodiscard]] std::string layer_infeasibility(std::int64_t hidden_size, const Workload& workload,
                                              const Candidate& candidate, std::int64_t ranks_per_node);

}  // namespace moeplan::planner
