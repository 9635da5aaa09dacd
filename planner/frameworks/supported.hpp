// Whether a framework runs a candidate.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/candidate/candidate.hpp"
#include "planner/frameworks/framework.hpp"

namespace moeplan::planner {

/// Why the framework does not run the candidate ("Megatron-LM 0.15 has no schedule opt_sche"), or none.
/// `ranks_per_node`: GPUs of a node of the cluster.
[[nodiscard]] std::optional<std::string> unsupported(const Framework& framework, const Candidate& candidate,
                                                     std::int64_t ranks_per_node);

/// The levels of recomputation to try for a workload that leaves it open, the least first: none, what the framework
/// recomputes of Selective, SelectiveAndMoe and AllButAttention, and full.
[[nodiscard]] std::vector<Recompute> recompute_levels(const Framework& framework);

}  // namespace moeplan::planner
