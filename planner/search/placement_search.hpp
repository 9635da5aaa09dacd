// The round of a search that places experts: candidates with placed experts that fit are simulated and ranked with the
// others.
#pragma once

#include "planner/search/ranking.hpp"

namespace moeplan::planner {

/// Adds placed candidates to the ranking by makespan; if SearchSpace::placements names a placement, the ranking keeps
/// the candidates of that placement only (possibly none). No placement is tried if the space has no placements, or if
/// the loads of ranks are even (within 5%). With at most two kinds of routing `auto` minimises simulated layer times,
/// otherwise the closed form. The result does not depend on the number of threads.
void place_experts(Ranking& ranking);

}  // namespace moeplan::planner
