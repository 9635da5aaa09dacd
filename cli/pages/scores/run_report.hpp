// The report of `moeplan score` on a table of runs: errors of time and memory by cluster and precision, groups of rows,
// what was refused and what was taken for empty columns.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "profiler/scores/run_score.hpp"

namespace moeplan::cli {

struct RunReport {
  std::string file;
  std::vector<profiler::RunRow> table;
  std::vector<profiler::ScoredRun> rows;  // one per row of the table, in its order
  std::vector<profiler::RunClass> classes;
  std::vector<profiler::RunGroup> groups;
};

/// Of the rows that state their work (RunRow::states_its_work).
[[nodiscard]] profiler::RunSummary stated_summary(const RunReport& report);

[[nodiscard]] std::string run_page(const RunReport& report);
/// An element of `tables` in the JSON document of `score`.
[[nodiscard]] nlohmann::ordered_json run_json(const RunReport& report);

/// "ok", "refused", "infeasible".
[[nodiscard]] std::string_view status_name(profiler::RunStatus status);

}  // namespace moeplan::cli
