// Predicted against measured times of a table of collectives.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/collectives/collective_models.hpp"
#include "profiler/scores/score.hpp"
#include "profiler/tables/collective_table.hpp"

namespace moeplan::profiler {

/// The models of the clusters that a table names; a cluster without a file is missing.
using ModelsByCluster = std::map<std::string, CollectiveModels>;

/// At the end of the name of a group: where a machine's numbers are the fastest of several sources, the fastest of its
/// rows of equal shape and size are a group of their own.
inline constexpr std::string_view kFastestOfSources = ", fastest of its sources";

/// Predicts every row. A group has one cluster, operation and number of ranks, below 1 MiB or from there on
/// ("all_gather hgx_b200 8 ranks from 1 MiB"). Rows of groups larger than a file's measured_ranks, and all rows of
/// a machine whose numbers are another's, are held out.
[[nodiscard]] std::vector<ScoredRow> score_collectives(std::span<const CollectiveRow> table,
                                                       const ModelsByCluster& models);

/// The models of a cluster, for a measurement of `source`: none and the reason if there are none.
struct FoundModels {
  const CollectiveModels* models = nullptr;
  std::string reason;
};
[[nodiscard]] FoundModels find_models(const ModelsByCluster& models, const std::string& cluster,
                                      const std::string& source);

}  // namespace moeplan::profiler
