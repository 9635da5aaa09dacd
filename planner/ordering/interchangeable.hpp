// Symmetry breaking for OrderProblem: precedences between interchangeable chunks, such as the equal parts of a
// microbatch.
//
// Non-overtaking: if chunks are copies of each other (the same kinds of tasks on the same streams with the same times
// and precedences, within the chunk and to tasks outside it), some optimal order runs every kind of task in chunk
// order. Proof: in any schedule, assign to the i-th chunk, for every kind, the i-th start of that kind. The set of
// starts is unchanged, so the streams are used as before. Where kind b follows kind a within a chunk, every start of b
// is at or after the end of a in the same chunk, hence the i-th start of b is at or after the i-th end of a: sorting
// preserves x_i <= y_i for all i. Precedences from chunk to chunk therefore lose no optimum, and of up to (chunks!)
// orders that differ only in labels they keep one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/ordering/order_problem.hpp"

namespace moeplan::planner {

/// Precedences (before, after) that may all be added to the problem. Chunks are found by colour refinement: a task with
/// a unique colour is outside the chunks; connected components of the rest in which the same colours occur once each
/// are copies. The test is sufficient, not necessary.
[[nodiscard]] std::vector<std::pair<std::int32_t, std::int32_t>> non_overtaking(const OrderProblem& problem);

}  // namespace moeplan::planner
