// The file of accuracies that `moeplan score --accuracy` writes (planner/report/accuracy.hpp).
#pragma once

#include <string>
#include <vector>

#include "cli/pages/scores/score_report.hpp"

namespace moeplan::cli {

/// YAML: the errors of all tables of runs together, by GPU and by GPU and precision. Raises InputError for other
/// tables.
[[nodiscard]] std::string accuracy_file(const std::vector<ScoreReport>& reports);

}  // namespace moeplan::cli
