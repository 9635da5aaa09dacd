// A planning problem that owns its inputs, candidates for it, and placements of experts that a user gives as matrices.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "planner/evaluation/evaluation.hpp"
#include "planner/request/plan_request.hpp"
#include "planner/search/place_experts.hpp"
#include "python/own_schedule.hpp"

namespace moeplan::python {

/// A matrix of whole numbers, row by row.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<std::int64_t> values;
  [[nodiscard]] std::int64_t at(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * columns + column)];
  }
};

class OwnedProblem {
 public:
  explicit OwnedProblem(planner::PlanJob loaded)
      : job_(std::move(loaded)), problem_(job_.inputs.model, job_.inputs.workload, job_.cluster) {}
  OwnedProblem(const OwnedProblem&) = delete;
  OwnedProblem& operator=(const OwnedProblem&) = delete;

  [[nodiscard]] const planner::PlanJob& job() const { return job_; }
  [[nodiscard]] const planner::Problem& problem() const { return problem_; }

  /// The decision of a plan file with one GPU for everything, and the workload's recomputation: what changes start
  /// from.
  [[nodiscard]] Node default_decision() const;

  /// The candidate of a decision in JSON, with a schedule and placements of one's own (one matrix per kind of MoE
  /// layer, or one for all). Element (e, r) of a matrix is the share of expert e's tokens that go to position r of its
  /// expert-parallel group, relative to the row's sum; 0: r does not hold the expert. Raises InputError.
  [[nodiscard]] planner::Candidate candidate(const std::string& decision, const OwnSchedule* schedule,
                                             const std::vector<Matrix>& placements) const;

  /// For each kind of MoE layer, the tokens of one microbatch from each position of an expert-parallel group to each
  /// expert: [ep, experts]. The decision must be feasible. Raises InputError.
  [[nodiscard]] std::vector<Matrix> loads(const std::string& decision) const;

 private:
  [[nodiscard]] std::vector<planner::Placement> placements_of(const planner::Candidate& candidate,
                                                              const std::vector<Matrix>& matrices) const;
  void check(const planner::Candidate& candidate) const;

  planner::PlanJob job_;
  planner::Problem problem_;  // refers to job_
};

}  // namespace moeplan::python
