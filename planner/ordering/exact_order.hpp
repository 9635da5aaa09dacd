// The best order of tasks on streams, exactly: branch and bound.
//
// The problem is a job shop with any precedences ([Graham et al. 1979] J | prec | Cmax): a task runs on one stream for
// a known time, tasks of one stream never overlap, streams are independent. Waiting may pay: a stream left idle for a
// task that comes soon can beat one that takes what is there. So the search is over active schedules, which always hold
// an optimum, by the branching of Giffler and Thompson ("Algorithms for solving production-scheduling problems",
// Operations Research 8, 1960): of all tasks that could be next, take the one that would end first; one of its stream
// that could start before that end is the next there.
//
// Pruned by
// - bounds: heads and tails along precedences (tails also by the load of the streams behind a task), and on each stream
//   the preemptive one-machine bound with heads and tails (Carlier, "The one-machine sequencing problem", EJOR 11,
//   1982; Jackson's preemptive schedule), never below the critical path or a stream's load;
// - dominance: of two ways to have done the same tasks, one after which every open task can start no later;
// - symmetry: interchangeable chunks go in one order (interchangeable.hpp).
//
// Exponential in the worst case: the budget is in visited states, not in time, so that answers do not depend on the
// machine. Deterministic.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/base/sim_time.hpp"

namespace moeplan::planner {

struct OrderTask {
  SimTime duration;                 // not negative
  std::int32_t stream = 0;          // from 0; only equality matters
  std::vector<std::int32_t> after;  // earlier tasks of the list that end before it starts
  bool operator==(const OrderTask&) const = default;
};
using OrderProblem = std::vector<OrderTask>;

inline constexpr std::size_t kMostOrderTasks = 256;
/// States, each of some hundred bytes and some microseconds.
inline constexpr std::int64_t kOrderBudget = 200'000;

struct OrderResult {
  /// All tasks by start; streams work in this order, and no task stands before one that it comes after.
  std::vector<std::int32_t> order;
  SimTime makespan;        // of this order: never more than that of the list's own
  SimTime lower_bound;     // of every order
  bool proved = false;     // makespan == lower_bound: no order is better
  std::int64_t nodes = 0;  // states visited
};

/// At most kMostOrderTasks tasks.
[[nodiscard]] OrderResult exact_order(const OrderProblem& problem, std::int64_t budget = kOrderBudget);

/// "exact", or "heuristic" where the budget ended before the proof.
[[nodiscard]] constexpr std::string_view answered_by(const OrderResult& result) {
  return result.proved ? "exact" : "heuristic";
}

/// When each task starts if streams work in this order, each task as soon as stream and precedences allow. No task
/// stands before one that it comes after.
[[nodiscard]] std::vector<SimTime> order_starts(const OrderProblem& problem, std::span<const std::int32_t> order);

/// The last end.
[[nodiscard]] SimTime order_makespan(const OrderProblem& problem, std::span<const std::int32_t> order);

}  // namespace moeplan::planner
