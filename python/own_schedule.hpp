// A schedule that a user gives as an order of tasks.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "planner/schedules/baseline_layout.hpp"

namespace moeplan::python {

/// A schedule with the layout of `baseline` (planner/schedules/baseline_layout.hpp) and an order of the chunks' tasks
/// of its own. The orders for all numbers of chunks are computed and checked at once, so that searches need no Python.
class OwnSchedule : public planner::BaselineLayout {
 public:
  /// A task of a chunk: the chunk's number from 0, and the task's name (kTaskNames).
  using NamedStep = std::pair<std::int64_t, std::string>;
  using Order = std::function<std::vector<NamedStep>(std::int64_t chunks)>;

  /// Calls `order` for 1 to kMostChunks chunks. Raises InputError if an order lacks a task, or has one twice or before
  /// its predecessor in the same chunk.
  OwnSchedule(std::string name, std::string summary, const Order& order);

  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] std::string_view summary() const override { return summary_; }
  [[nodiscard]] std::optional<Infeasibility> infeasibility(const Degrees&, const planner::Candidate&) const override {
    return std::nullopt;
  }

 private:
  [[nodiscard]] planner::ExpertRound round(std::int64_t chunks) const override;

  std::string name_, summary_;
  std::vector<std::vector<planner::ChunkStep>> orders_;  // of 1 chunk, of 2 ...
};

/// The names of a chunk's tasks, in order.
[[nodiscard]] std::vector<std::string> task_names();

}  // namespace moeplan::python
