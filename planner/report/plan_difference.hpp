// The comparison of two plans: their decisions, their inputs, and the composition of their time and memory.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/plan/plan.hpp"

namespace moeplan::planner {

/// A value in the first plan and in the second.
template <class T>
struct Compared {
  T first;
  T second;
};

/// The time that an operation class takes in two plans.
struct ClassDifference {
  OpClass op_class;
  Compared<Seconds> visible;  // on the binding rank of each
  Compared<Seconds> exposed;  // for communication: while no computation runs
};

/// The differences between two plans. `visible` over the classes plus `idle` is the makespan, so their changes add up
/// to the change of the makespan.
struct PlanDifference {
  std::vector<ClassDifference> classes;  // classes that occur in either plan, the largest change first
  Compared<Seconds> idle;                // on the binding rank of each
  std::vector<std::pair<std::string, Compared<Bytes>>> memory;           // "weights" ... "runtime"
  std::vector<std::pair<std::string, Compared<std::string>>> decisions;  // decisions that differ, as "tp": "1", "2"
  std::vector<std::string> inputs;  // key paths that differ, such as "cluster.gpu.memory"; at most `most`
};
[[nodiscard]] PlanDifference plan_difference(const Plan& a, const Prediction& of_a, const Plan& b,
                                             const Prediction& of_b, std::size_t most = 20);

/// Appends to `out` the key paths at which two documents differ, up to `most` in total: "cluster.gpu.memory", followed
/// by " (gone)" if only the first document has it and by " (new)" if only the second has. Origins are no difference.
void add_differences(const Node& a, const Node& b, const std::string& path, std::size_t most,
                     std::vector<std::string>& out);

}  // namespace moeplan::planner
