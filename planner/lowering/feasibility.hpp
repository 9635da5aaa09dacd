// What keeps a candidate from running.
#pragma once

#include <optional>
#include <string>

#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// Parallel degrees that do not fit a model or a workload: a short reason for the count of rejections, or none.
/// Everything that lower_iteration() requires is checked here.
[[nodiscard]] std::optional<std::string> infeasibility(const ModelSpec& model, const Workload& workload,
                                                       const Candidate& candidate, std::int64_t ranks_per_node);

/// The part of it that is about how the MoE layers run: schedule, all-to-all, chunks and codec. "" if they can.
[[nodiscard]] std::string layer_infeasibility(std::int64_t hidden_size, const Workload& workload,
                                              const Candidate& candidate, std::int64_t ranks_per_node);

}  // namespace moeplan::planner
