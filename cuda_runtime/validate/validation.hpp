// Predicted against measured: two Timelines of one Program, and what an executed layer says about the model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/validate/job.hpp"
#include "model/analysis/timeline.hpp"
#include "model/machine/cluster.hpp"
#include "profiler/statistics.hpp"

namespace moeplan::validate {

/// A time of both, and how far the prediction is off: predicted / measured - 1.
struct TimePair {
  Seconds predicted;
  Seconds measured;                              // median over runs
  std::optional<profiler::Interval> interval{};  // of the median, 95%
  [[nodiscard]] double error() const { return predicted / measured - 1; }
};

/// Time of a class of operations in a block, mean over ranks; what overlaps counts each.
struct ClassPair {
  std::string block;
  OpClass op_class;
  TimePair time;
};

struct CaseValidation {
  TimePair layer;  // from begin to end of the slowest rank
  std::vector<ClassPair> classes;
  double mape = 0;               // mean of |error| over the classes
  double r2 = 0;                 // of single operations' times (mean over ranks), predicted to measured
  Timeline predicted, measured;  // measured: of the run whose makespan is the median
};

/// `result` was executed, at least once. Every rank of both counts.
[[nodiscard]] CaseValidation compare(const Program& program, const Cluster& cluster, const ExecutionResult& result);

/// 1 - sum of squared differences over the measured values' about their mean; 0 where these are all equal.
[[nodiscard]] double r_squared(const std::vector<double>& predicted, const std::vector<double>& measured);

/// Spearman's: correlation of the ranks, ties their mean; none of fewer than three or where all are equal.
[[nodiscard]] std::optional<double> rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

/// How much longer the case that is predicted fastest takes than the one that is: measured / least measured - 1.
[[nodiscard]] double regret(const std::vector<double>& predicted, const std::vector<double>& measured);

/// Both Timelines as one Chrome trace: processes of predicted ranks beside those of measured ones.
[[nodiscard]] std::string overlaid_trace(const Program& program, const CaseValidation& validation);

}  // namespace moeplan::validate
