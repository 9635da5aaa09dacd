// Bounds for ordering tasks on streams: the graph with tails, and one stream by itself.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/ordering/exact_order.hpp"

namespace moeplan::planner {

/// A task on one machine. Times in picoseconds.
struct OneMachineJob {
  std::int64_t head;  // it starts no sooner
  std::int64_t duration;
  std::int64_t tail;  // what follows its end
};

/// The least possible largest (end + tail) if tasks may be interrupted: always run the one with the longest tail of
/// those that have come (Jackson's preemptive schedule; Carlier 1982). Sorts `jobs`. O(n log n).
[[nodiscard]] std::int64_t one_machine_bound(std::vector<OneMachineJob>& jobs);

/// A problem with the tasks renumbered along precedences.
struct OrderGraph {
  std::vector<std::int32_t> task;  // of the problem
  std::vector<std::int64_t> duration;
  std::vector<std::size_t> stream;  // from 0, without gaps
  std::vector<std::vector<std::size_t>> before;
  std::vector<std::vector<std::size_t>> after;
  /// What must follow the end of a task: the longest path, or the load of any stream by what comes after the task.
  std::vector<std::int64_t> tail;
  std::vector<std::vector<std::size_t>> on_stream;
  std::size_t streams = 0;

  [[nodiscard]] std::size_t size() const { return task.size(); }
};

/// `more` precedences, (before, after), must leave the problem without cycles.
[[nodiscard]] OrderGraph order_graph(const OrderProblem& problem,
                                     const std::vector<std::pair<std::int32_t, std::int32_t>>& more = {});

}  // namespace moeplan::planner
