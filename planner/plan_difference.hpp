// What distinguishes two plans: decisions, inputs, and where the time and the memory go.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/plan.hpp"

namespace moeplan {

/// Time of a class that was not hidden behind computation: what one plan can be compared by with another. Over all
/// classes it sums to the rank's busy time where its computations do not overlap one another.
[[nodiscard]] Seconds visible(const ClassTime& time);

/// A value in the first plan and in the second.
template <class T>
struct Compared {
  T first;
  T second;
};

struct ClassDifference {
  OpClass op_class;
  Compared<Seconds> visible;  // on the slowest rank
  Compared<Seconds> exposed;  // of a communication: while no computation runs
};

struct PlanDifference {
  std::vector<ClassDifference> classes;                         // those that either has, the largest change first
  Compared<Seconds> waiting;                                    // idle on the slowest rank
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

}  // namespace moeplan
