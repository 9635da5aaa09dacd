// FasterMoE's figure 5 in characters.
#pragma once

#include <span>
#include <string>

#include "planner/report/layer_roofline.hpp"

namespace moeplan::cli {

/// Points by number (1 is the first) over log R_CC, as shares of the highest P_w among them, under both ceilings: '='
/// eq. (5), '-' eq. (6). Where points fall together the lowest number stands. Points without communication stand at the
/// right edge.
[[nodiscard]] std::string roofline_plot(std::span<const planner::LayerPoint> points);

}  // namespace moeplan::cli
