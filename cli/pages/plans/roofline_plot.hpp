// The DDL-Roofline plot of [FasterMoE] figure 5, in characters.
#pragma once

#include <span>
#include <string>

#include "planner/report/layer_roofline.hpp"

namespace moeplan::cli {

/// Plots points by number (from 1) over log R_CC, as fractions of the highest P_w among them, under both ceilings: '='
/// for eq. (5), '-' for eq. (6). Where points coincide, the lowest number is shown. Points without communication are at
/// the right edge.
[[nodiscard]] std::string roofline_plot(std::span<const planner::LayerPoint> points);

}  // namespace moeplan::cli
