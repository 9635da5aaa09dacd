// What would give a job a plan that has none on its GPUs: other numbers of GPUs, or another global batch.
#pragma once

#include <cstdint>
#include <optional>

#include "planner/evaluation/problem.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/search/search_space.hpp"

namespace moeplan::planner {

/// Whether any candidate of the space fits in memory, with its smallest micro batch and the most recomputation that the
/// workload allows. No candidate is priced. Where the space does not fix the schedule, it is `baseline`.
[[nodiscard]] bool has_plan(const Problem& problem, const SearchSpace& space);

struct WouldFit {
  /// GPUs of nodes_and_parts(): the fewest found above, the most below.
  std::optional<std::int64_t> more, fewer;
  std::optional<std::int64_t> global_batch;  // with the same GPUs
  std::int64_t most_tried_gpus = 0;          // the largest number that was tried
};

/// Tries numbers of GPUs above `gpus` as fewest_size() does, up to 16 times as many or 16,384; where the batch does not
/// suit `gpus`, also fewer GPUs and larger batches. About twenty calls of has_plan() at most. The cluster has one rank
/// a GPU.
[[nodiscard]] WouldFit what_would_fit(const Inputs& inputs, const SearchSpace& space, std::int64_t gpus);

}  // namespace moeplan::planner
