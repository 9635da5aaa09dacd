// Predicted against measured times of a table of operators.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/operators/operator_models.hpp"
#include "profiler/operator_table.hpp"

namespace moeplan::profiler {

/// One row with its prediction, or the reason why there is none.
struct ScoredRow {
  std::size_t row = 0;  // index in the table
  Seconds measured;
  std::optional<Seconds> predicted;
  std::string reason;      // "" with a prediction
  std::string library;     // of the model that predicts
  bool is_fitted = false;  // the numbers were fitted to this shape, as far as is known: it is not held out
  [[nodiscard]] double error() const { return predicted ? *predicted / measured - 1 : 0; }
};

/// Errors of a set of rows. Error = predicted / measured - 1, of time; bias is the mean of ln(predicted / measured).
struct ErrorSummary {
  std::size_t rows = 0, scored = 0, refused = 0;
  double mape = 0, median = 0, p90 = 0, worst = 0, bias = 0;
};
[[nodiscard]] ErrorSummary summarise(std::span<const ScoredRow> rows);

/// The models of the GPUs that a table names; a GPU without a file is missing.
using ModelsByGpu = std::map<std::string, OperatorModels>;

/// Predicts every row.
[[nodiscard]] std::vector<ScoredRow> score_operators(std::span<const OperatorRow> table, const ModelsByGpu& models);

/// Rows of one kind, GPU, format, phase and library, from 1e8 FLOPs on where a kind has FLOPs.
struct ScoredGroup {
  std::string name;  // "gemm h200_sxm bf16 forward trtllm"
  ErrorSummary all;
  ErrorSummary held_out;  // rows that nothing was fitted to
};
[[nodiscard]] std::vector<ScoredGroup> score_groups(std::span<const OperatorRow> table,
                                                    std::span<const ScoredRow> scored);

}  // namespace moeplan::profiler
