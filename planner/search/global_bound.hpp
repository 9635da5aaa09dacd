// A lower bound on the iteration time over all candidates and all strategies for their MoE layers.
#pragma once

#include <vector>

#include "planner/search/ranking.hpp"

namespace moeplan::planner {

/// A lower bound over all candidates of the search, including the strategies for their MoE layers that its space leaves
/// open and that were not priced. None of these is faster than the work that all strategies have in common nor, if all
/// layers use one strategy, than the busiest link under any all-to-all with the smallest codec. There must be ranked
/// candidates. The result does not depend on the number of threads.
[[nodiscard]] Seconds global_bound(Ranking& ranking);

}  // namespace moeplan::planner
