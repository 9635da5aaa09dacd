// Scoring of a table: its kind, and the models of configs/ that its rows name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/pages/scores/score_report.hpp"
#include "profiler/scores/collective_score.hpp"
#include "profiler/tables/collective_table.hpp"

namespace moeplan::cli {

/// Reads the table, which may be compressed with gzip, and predicts each of its rows. `progress` receives (done, total)
/// of a table of runs, from one thread at a time. Raises InputError with every row that is wrong.
[[nodiscard]] ScoreReport scored_table(const std::string& file,
                                       const std::function<void(std::int64_t, std::int64_t)>& progress = {});

/// The models of configs/collectives that the rows of a table name.
[[nodiscard]] profiler::ModelsByCluster cluster_models_of(const std::vector<profiler::CollectiveRow>& table);

}  // namespace moeplan::cli
