// Predictions of measured runs: time of a step and peak memory of the fullest GPU.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "profiler/scores/run_score.hpp"
#include "profiler/tables/run_table.hpp"

namespace moeplan::runs {

struct PredictionOptions {
  int threads = 0;  // 0: one per core; the result is the same
  /// Receives (done, total) on any thread.
  std::function<void(std::int64_t, std::int64_t)> progress = {};
};

/// Predicts every row of a table, in its order. A row whose plan does not fit in memory has a predicted memory and no
/// time.
[[nodiscard]] std::vector<profiler::ScoredRun> predict_runs(std::span<const profiler::RunRow> table,
                                                            const PredictionOptions& options = {});

}  // namespace moeplan::runs
