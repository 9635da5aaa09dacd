// Chunks of a problem of ordering tasks that could change places without anyone noticing, such as the equal parts of a
// microbatch.
//
// Non-overtaking: if chunks are copies of each other (same kinds of tasks on the same streams with the same times and
// precedences, inside and to tasks outside), there is a best order in which every kind of task goes in order of chunks.
// For give the i-th chunk, of every kind, the i-th start of that kind in any schedule. No start changes, so streams are
// used as before. Where kind b comes after kind a in each chunk, every start of b is at or after an end of a of its own
// chunk, hence the i-th start of b at or after the i-th end of a: sorting keeps x_i <= y_i for all i. So precedences
// from chunk to chunk lose no optimum, and leave one of up to (chunks!) orders that differ by names alone.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/ordering/exact_order.hpp"

namespace moeplan::planner {

/// Precedences (before, after) that may be added together. Chunks are found by colour refinement: what has a colour of
/// its own is outside; connected parts of the rest with the same colours, each once, are copies. Sufficient, not
/// necessary.
[[nodiscard]] std::vector<std::pair<std::int32_t, std::int32_t>> non_overtaking(const OrderProblem& problem);

}  // namespace moeplan::planner
