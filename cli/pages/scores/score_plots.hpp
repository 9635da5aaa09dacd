// Plots of predicted against measured collectives.
#pragma once

#include <map>
#include <span>
#include <string>

#include "profiler/scores/collective_score.hpp"

namespace moeplan::cli {

/// A plot for each machine and operation with predictions, by the name of its file: "dgx_h100_all_reduce.svg". A colour
/// is a shape of group; its line is the prediction from its smallest to its largest size. Measurements in place are
/// shown only for shapes without any out of place.
[[nodiscard]] std::map<std::string, std::string> collective_plots(std::span<const profiler::CollectiveRow> table,
                                                                  const profiler::ModelsByCluster& models);

}  // namespace moeplan::cli
