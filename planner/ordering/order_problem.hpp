// An ordering problem: tasks with precedences on streams, and the schedule that an order of the tasks gives.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/base/sim_time.hpp"

namespace moeplan::planner {

/// A task of an OrderProblem.
struct OrderTask {
  SimTime duration;                 // not negative
  std::int32_t stream = 0;          // from 0; only equality matters
  std::vector<std::int32_t> after;  // indices of earlier tasks in the list; they end before this one starts
  bool operator==(const OrderTask&) const = default;
};
using OrderProblem = std::vector<OrderTask>;

/// The largest number of tasks that exact_order() (exact_order.hpp) accepts.
inline constexpr std::size_t kMostOrderTasks = 256;

/// Start time of each task if the streams work in this order and each task starts as soon as its stream and its
/// predecessors allow. In `order` every task must come after its predecessors.
[[nodiscard]] std::vector<SimTime> order_starts(const OrderProblem& problem, std::span<const std::int32_t> order);

/// The latest end time of a task under order_starts().
[[nodiscard]] SimTime order_makespan(const OrderProblem& problem, std::span<const std::int32_t> order);

}  // namespace moeplan::planner
