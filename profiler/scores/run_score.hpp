// Predicted against measured training iterations: errors of time and memory, and what groups of rows say.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/base/quantity.hpp"
#include "profiler/tables/run_table.hpp"

namespace moeplan::profiler {

enum class RunStatus {
  Ok,
  Refused,    // the row cannot be expressed
  Infeasible  // the plan does not fit in memory
};

/// A row with its prediction.
struct ScoredRun {
  std::size_t row = 0;  // index in the table
  std::optional<Seconds> measured = {}, predicted = {};
  std::optional<Bytes> measured_memory = {}, predicted_memory = {};
  RunStatus status = RunStatus::Refused;
  std::string reason = {};                        // "" with RunStatus::Ok
  std::vector<std::string> assumed = {};          // what was taken for empty columns
  std::vector<std::string> approximations = {};   // columns that have no effect or a rough one
  std::optional<std::int64_t> microbatches = {};  // of a step on a replica
  double seconds_per_token_and_gpu = 0;           // the factor from seconds of a step to this; 0 if unknown

  /// Whether the row counts in errors of time.
  [[nodiscard]] bool has_error() const { return measured && predicted; }
  [[nodiscard]] double error() const { return *predicted / *measured - 1; }
};

/// Errors of a set of rows. Error = predicted / measured - 1; bias is the mean of ln(predicted / measured).
struct RunSummary {
  std::size_t rows = 0, scored = 0, refused = 0, infeasible = 0;
  double mape = 0, median = 0, p90 = 0, worst = 0, bias = 0;
  std::size_t memory_rows = 0;
  double memory_mape = 0, memory_p90 = 0, memory_bias = 0;
};
[[nodiscard]] RunSummary summarise(std::span<const ScoredRun> rows);

/// The scored rows that state their work (RunRow::states_its_work).
[[nodiscard]] std::vector<ScoredRun> with_stated_work(std::span<const RunRow> table, std::span<const ScoredRun> scored);

/// The rows of which the prediction is farthest from the measurement, up or down by a factor, in this order.
[[nodiscard]] std::vector<const ScoredRun*> farthest_off(std::span<const ScoredRun> rows, std::size_t most);

/// One row of a group against another one.
struct RunChange {
  std::string from, to;  // ids
  double measured = 0;   // relative change of the seconds a token and GPU: -0.1 is 10% faster
  double predicted = 0;
  /// Whether the prediction has the measured sign; changes below kNoise have none.
  [[nodiscard]] bool has_right_sign() const;
  /// assumed: repeats of one job differ by so much over releases (median)
  static constexpr double kNoise = 0.015;
};

/// The rows of one group name. What does not apply to its kind is absent.
struct RunGroup {
  std::string name;  // "delta:overlap"
  std::string kind;  // "delta": the part before the first colon
  std::size_t rows = 0, scored = 0;
  std::vector<RunChange> changes = {};  // delta, scaling: against the first row; ladder: against the row before
  std::optional<double> spearman = {};  // rank: correlation of the predicted with the measured order
  std::optional<double> regret = {};    // rank: how much slower than the fastest row the one predicted to be fastest is
  std::optional<Seconds> measured_slope = {}, predicted_slope = {};  // slope: of a microbatch, by least squares
  std::optional<double> spread = {};                                 // repeat: slowest / fastest measured - 1
  std::optional<double> least_mape = {};  // repeat: of the best single prediction for all rows, their median
  std::optional<std::size_t> right = {};  // fit: rows of which it is predicted rightly whether they fit
};

/// The groups that rows name, by name. A row may be in several.
[[nodiscard]] std::vector<RunGroup> score_run_groups(std::span<const RunRow> table, std::span<const ScoredRun> scored);

/// Rows by cluster and precision, each with its summary, by name.
struct RunClass {
  std::string cluster, precision;
  RunSummary summary;
};
[[nodiscard]] std::vector<RunClass> score_run_classes(std::span<const RunRow> table, std::span<const ScoredRun> scored);

}  // namespace moeplan::profiler
