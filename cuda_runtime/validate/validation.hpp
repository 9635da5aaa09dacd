// The comparison of a predicted with a measured Timeline of one Program, and its error statistics.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/validate/job.hpp"
#include "model/analysis/timeline.hpp"
#include "model/machine/cluster.hpp"
#include "profiler/statistics.hpp"

namespace moeplan::validate {

/// A predicted and a measured time, with the relative error predicted / measured - 1.
struct TimePair {
  Seconds predicted;
  Seconds measured;                              // median over executions
  std::optional<profiler::Interval> interval{};  // 95 % confidence interval of the median
  [[nodiscard]] double error() const { return predicted / measured - 1; }
};

/// Time of one operation class in a block, as mean over ranks. Concurrent operations each count in full.
struct ClassPair {
  std::string block;
  OpClass op_class;
  TimePair time;
};

struct CaseValidation {
  TimePair layer;  // from start to end of the slowest rank
  std::vector<ClassPair> classes;
  double mape = 0;               // mean of |error| over `classes`
  double r2 = 0;                 // of the times of single operations (mean over ranks), predicted against measured
  Timeline predicted, measured;  // measured: the execution with the median makespan
};

/// Compares prediction and measurement over all ranks. Requires that `result` has at least one execution.
[[nodiscard]] CaseValidation compare(const Program& program, const Cluster& cluster, const ExecutionResult& result);

/// The coefficient of determination: 1 - sum of squared differences / sum of squares of the measured values about their
/// mean. 0 if the measured values are all equal.
[[nodiscard]] double r_squared(const std::vector<double>& predicted, const std::vector<double>& measured);

/// Spearman's rank correlation, with mean ranks for ties. None for fewer than three values, or if all are equal.
[[nodiscard]] std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

/// The regret of choosing by prediction: t / (least measured time) - 1, where t is the measured time of the case with
/// the least predicted time.
[[nodiscard]] double regret(const std::vector<double>& predicted, const std::vector<double>& measured);

/// Both Timelines as one Chrome trace, with separate processes for predicted and measured ranks.
[[nodiscard]] std::string overlaid_trace(const Program& program, const CaseValidation& validation);

}  // namespace moeplan::validate
