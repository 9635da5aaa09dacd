// Lower bounds for exact_order(): the precedence graph with tails, and the one-machine bound of a single stream.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/ordering/order_problem.hpp"

namespace moeplan::planner {

/// A job of the one-machine problem. Times in picoseconds.
struct OneMachineJob {
  std::int64_t head;  // earliest start
  std::int64_t duration;
  std::int64_t tail;  // least time from its end to the end of the schedule
};

/// The minimum over preemptive schedules of the largest (end + tail): always run the available job with the longest
/// tail (Jackson's preemptive schedule; Carlier 1982). Sorts `jobs`. O(n log n).
[[nodiscard]] std::int64_t one_machine_bound(std::vector<OneMachineJob>& jobs);

/// The precedence graph of a problem, with the tasks renumbered in topological order.
struct OrderGraph {
  std::vector<std::int32_t> task;  // index in the problem
  std::vector<std::int64_t> duration;
  std::vector<std::size_t> stream;  // from 0 without gaps
  std::vector<std::vector<std::size_t>> before;
  std::vector<std::vector<std::size_t>> after;
  /// The least time from the end of a task to the end of the schedule: the longest path, or the load that the task's
  /// successors put on any one stream.
  std::vector<std::int64_t> tail;
  std::vector<std::vector<std::size_t>> on_stream;
  std::size_t streams = 0;

  [[nodiscard]] std::size_t size() const { return task.size(); }
};

/// The graph of a problem with the precedences `more`, (before, after), added. They must not create a cycle.
[[nodiscard]] OrderGraph order_graph(const OrderProblem& problem,
                                     const std::vector<std::pair<std::int32_t, std::int32_t>>& more = {});

}  // namespace moeplan::planner
