// What distinguishes two plans: decisions, inputs, and where the time and the memory go.
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

struct ClassDifference {
  OpClass op_class;
  Compared<Seconds> visible;  // on the binding rank of each
  Compared<Seconds> exposed;  // of a communication: while no computation runs
};

/// `visible` over the classes and `idle` sum to the makespans, so their changes to the change of the makespan.
struct PlanDifference {
  std::vector<ClassDifference> classes;                         // those that either has, the largest change first
  Compared<Seconds> idle;                                       // on the binding rank of each
  std::vector<std::pair<std::string, Compared<Bytes>>> memory;  // "weights" ... "runtime"
  std::vector<std::pair<std::string, Compared<std::string>>> decisions;  // "tp": "1", "2"; those that differ
  std::vector<std::string> inputs;  // "cluster.gpu.memory"; those that differ, at most `most`
};
[[nodiscard]] PlanDifference plan_difference(const Plan& a, const Prediction& of_a, const Plan& b,
                                             const Prediction& of_b, std::size_t most = 20);

/// Key paths at which two documents differ, at most `most` in `out`: "cluster.gpu.memory", with " (gone)" where only
/// the first has it and " (new)" where only the second has.
void add_differences(const Node& a, const Node& b, const std::string& path, std::size_t most,
                     std::vector<std::string>& out);

}  // namespace moeplan::planner
