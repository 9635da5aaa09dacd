// The report of `moeplan score`: predicted against measured.
#pragma once

#include <string>
#include <vector>

#include "profiler/operator_score.hpp"

namespace moeplan::cli {

/// A scored table.
struct ScoreReport {
  std::string file;
  std::vector<profiler::OperatorRow> table;
  std::vector<profiler::ScoredRow> rows;  // one per row of the table, in its order
  std::vector<profiler::ScoredGroup> groups;
};

[[nodiscard]] std::string score_page(const std::vector<ScoreReport>& reports);
[[nodiscard]] std::string score_json(const std::vector<ScoreReport>& reports);
/// One line per row: file, line, measured and predicted microseconds, error, status, reason.
[[nodiscard]] std::string score_csv(const std::vector<ScoreReport>& reports);

}  // namespace moeplan::cli
