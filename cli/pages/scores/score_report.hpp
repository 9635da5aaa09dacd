// The report of `moeplan score`: predicted against measured.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/pages/scores/run_report.hpp"
#include "profiler/scores/score.hpp"
#include "profiler/tables/table_kind.hpp"

namespace moeplan::cli {

/// A scored table.
struct ScoreReport {
  std::string file;
  profiler::TableKind kind = profiler::TableKind::Operators;
  std::vector<profiler::ScoredRow> rows;  // in the order of the table; a dispatch gives two
  std::vector<profiler::ScoredGroup> groups;
  std::optional<RunReport> runs = {};  // of a table of runs, which has neither rows nor groups
};

[[nodiscard]] std::string score_page(const std::vector<ScoreReport>& reports);
[[nodiscard]] std::string score_json(const std::vector<ScoreReport>& reports);
/// One line per row: file, id, measured and predicted microseconds, error, status, reason.
[[nodiscard]] std::string score_csv(const std::vector<ScoreReport>& reports);

}  // namespace moeplan::cli
