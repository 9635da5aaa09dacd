// What is predicted for a candidate, with its arrays, and plans.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "planner/plan/plan.hpp"
#include "python/owned_problem.hpp"

namespace moeplan::python {

namespace py = pybind11;

/// No plan is feasible: the text of the command line.
class Infeasible : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A candidate's evaluation, with what it refers to.
struct Evaluated {
  std::shared_ptr<OwnedProblem> problem;
  std::shared_ptr<OwnSchedule> schedule;  // may be null
  planner::Evaluation value;

  [[nodiscard]] bool has_estimate() const { return value.evaluated.estimate.lower_bound.value() > 0; }
  /// Dictionaries of NumPy arrays. Raises InputError without a Timeline.
  [[nodiscard]] py::dict ranks() const;
  [[nodiscard]] py::dict spans() const;
  [[nodiscard]] py::dict links() const;

 private:
  void need_timeline() const;
};

/// A plan: its evaluation, those of the candidates considered next, and the document of `moeplan plan --json`.
struct PlannedPlan {
  planner::Plan plan;
  std::vector<Evaluated> candidates;  // the best first
  std::string page, document;         // of a plan that was searched for; otherwise those of `moeplan simulate`
};

/// Searches. Raises InputError and Infeasible.
[[nodiscard]] PlannedPlan find_plan(const planner::PlanRequest& request, std::int64_t top,
                                    const std::shared_ptr<OwnSchedule>& schedule);

/// Reads a plan file and simulates it. Raises InputError.
[[nodiscard]] PlannedPlan simulated_plan(const std::string& file, const std::vector<std::string>& overrides);

/// Writes the plan file. Raises InputError, also for a schedule that is not built in.
void write_plan_file(const PlannedPlan& plan, const std::string& file);

/// The numbers as a NumPy array.
template <class T>
[[nodiscard]] py::array_t<T> as_array(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

/// Documents as Python's values: maps, lists, text, numbers, truth values and None.
[[nodiscard]] py::object as_python(const Node& node);

}  // namespace moeplan::python
