// The page docs/validation.md: how far predictions are from measurements, as Markdown.
#pragma once

#include <string>
#include <vector>

#include "cli/pages/scores/score_report.hpp"

namespace moeplan::cli {

/// One table with a line for each kind of measurement, then the tables in detail: their groups, the rows that are
/// farthest off, and what is refused. Files are named without their folders.
[[nodiscard]] std::string score_markdown(const std::vector<ScoreReport>& reports);

}  // namespace moeplan::cli
