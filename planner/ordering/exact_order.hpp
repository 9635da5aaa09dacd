// Exact branch-and-bound search for the best order of tasks on streams.
//
// The problem is a job shop with arbitrary precedences ([Graham et al. 1979] J | prec | Cmax): a task runs on one
// stream for a known time, tasks of one stream never overlap, and streams are independent. Idling can be optimal: a
// stream that waits for a task about to become ready can beat one that starts whatever is ready. The search therefore
// enumerates active schedules, which always include an optimum, with the branching of Giffler and Thompson ("Algorithms
// for solving production-scheduling problems", Operations Research 8, 1960): among all tasks that can come next, take
// the one with the earliest completion; each task of its stream that can start before that completion is one branch.
//
// The search prunes by
// - bounds: heads and tails along precedences (tails also include the load of the streams behind a task), and on each
//   stream the preemptive one-machine bound with heads and tails (Carlier, "The one-machine sequencing problem", EJOR
//   11, 1982; Jackson's preemptive schedule), never below the critical path or a stream's load;
// - dominance: a state is dropped if another state with the same completed tasks lets every open task start no later;
// - symmetry: interchangeable chunks keep one order (interchangeable.hpp).
//
// The worst case is exponential. The budget counts visited states, not time, so that results do not depend on the host.
// Deterministic.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/base/sim_time.hpp"
#include "planner/ordering/order_problem.hpp"

namespace moeplan::planner {

/// The default budget in states; a state takes some hundred bytes and some microseconds.
inline constexpr std::int64_t kOrderBudget = 200'000;

/// The result of a search.
struct OrderResult {
  /// All tasks by start time: the order in which the streams work. Every task comes after its predecessors.
  std::vector<std::int32_t> order;
  SimTime makespan;        // of this order; never above the makespan of the list's own order
  SimTime lower_bound;     // over all orders
  bool proved = false;     // makespan == lower_bound: no order is better
  std::int64_t nodes = 0;  // states visited
};

/// The best order found within the budget. At most kMostOrderTasks tasks.
[[nodiscard]] OrderResult exact_order(const OrderProblem& problem, std::int64_t budget = kOrderBudget);

/// "exact", or "heuristic" if the budget ran out before optimality was proved.
[[nodiscard]] constexpr std::string_view answered_by(const OrderResult& result) {
  return result.proved ? "exact" : "heuristic";
}

}  // namespace moeplan::planner
