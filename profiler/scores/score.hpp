// Predicted against measured times, whatever a table measures.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::profiler {

/// A predicted time, or the reason why there is none.
struct Prediction {
  std::optional<Seconds> time;
  std::string reason;      // "" with a time
  std::string library;     // of the model that answers
  bool is_fitted = false;  // the numbers were fitted to this shape, as far as is known: it is not held out
};
[[nodiscard]] Prediction refused(std::string reason);

/// One measured time with its prediction, or the reason why there is none.
struct ScoredRow {
  std::string id;    // the line in the table; of a dispatch "12/dispatch" and "12/combine"
  std::string text;  // what was measured, for people
  Seconds measured;
  std::optional<Seconds> predicted;
  std::string reason;               // "" with a prediction
  std::vector<std::string> groups;  // the names of those that it belongs to
  bool is_fitted = false;           // as in Prediction
  [[nodiscard]] double error() const { return predicted ? *predicted / measured - 1 : 0; }
};

/// Errors of a set of rows. Error = predicted / measured - 1, of time; bias is the mean of ln(predicted / measured).
struct ErrorSummary {
  std::size_t rows = 0, scored = 0, refused = 0;
  double mape = 0, median = 0, p90 = 0, worst = 0, bias = 0;
};
[[nodiscard]] ErrorSummary summarise(std::span<const ScoredRow> rows);

/// Comparable rows of a table.
struct ScoredGroup {
  std::string name;
  ErrorSummary all;
  ErrorSummary held_out;  // rows that nothing was fitted to
};
/// The groups that rows name, by name.
[[nodiscard]] std::vector<ScoredGroup> score_groups(std::span<const ScoredRow> rows);

}  // namespace moeplan::profiler
