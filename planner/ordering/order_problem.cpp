#include "planner/ordering/order_problem.hpp"

#include <algorithm>
#include <map>

namespace moeplan::planner {

std::vector<SimTime> order_starts(const OrderProblem& problem, std::span<const std::int32_t> order) {
  std::vector<SimTime> starts(problem.size());
  std::map<std::int32_t, SimTime> ready;
  for (const std::int32_t i : order) {
    const OrderTask& task = problem[static_cast<std::size_t>(i)];
    SimTime start = ready[task.stream];
    for (const std::int32_t a : task.after) {
      start = std::max(start, starts[static_cast<std::size_t>(a)] + problem[static_cast<std::size_t>(a)].duration);
    }
    starts[static_cast<std::size_t>(i)] = start;
    ready[task.stream] = start + task.duration;
  }
  return starts;
}

SimTime order_makespan(const OrderProblem& problem, std::span<const std::int32_t> order) {
  const std::vector<SimTime> starts = order_starts(problem, order);
  SimTime end;
  for (std::size_t i = 0; i < problem.size(); ++i) end = std::max(end, starts[i] + problem[i].duration);
  return end;
}

}  // namespace moeplan::planner
