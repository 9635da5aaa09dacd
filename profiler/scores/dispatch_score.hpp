// Predicted against measured times of a table of dispatches and combines.
#pragma once

#include <span>
#include <vector>

#include "profiler/scores/collective_score.hpp"
#include "profiler/scores/score.hpp"
#include "profiler/tables/dispatch_table.hpp"

namespace moeplan::profiler {

/// Predicts the dispatch, then the combine, of every row. A group has one direction, dispatcher, mode, cluster and
/// number of nodes ("combine deepep normal dgx_h100 1 node"). Rows of groups larger than measured_ranks are held out.
[[nodiscard]] std::vector<ScoredRow> score_dispatches(std::span<const DispatchRow> table,
                                                      const ModelsByCluster& models);

}  // namespace moeplan::profiler
