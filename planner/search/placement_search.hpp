// Expert placement for the best candidates of a search: placed candidates that fit are simulated and ranked with the
// others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/search/search.hpp"

namespace moeplan::planner {

/// The options of the placement search.
struct PlacementSpace {
  /// The name of a placement strategy (planner/placement/strategies/strategy.hpp); absent: contiguous, or `auto` where
  /// that is faster.
  std::optional<std::string> placement = {};
  std::optional<std::int64_t> redundant_experts = {};  // absent: 0, 1, 2 and 4 are tried
  std::int64_t most_placed = 2;  // simulated candidates whose experts are placed; 8 if `placement` is given
  std::int64_t most_ranks = 64;  // per stage, unless `placement` is given: ranks differ under a placement
  int threads = 0;               // 0: one per core
};

/// The search result with placed candidates added to the ranking by makespan; if space.placement is given, with the
/// candidates of that placement only (possibly none). No placement is tried if the loads of ranks are even (within 5%).
/// With at most two kinds of routing `auto` minimises simulated layer times, otherwise the closed form. The result does
/// not depend on `threads`.
[[nodiscard]] SearchResult with_placed_experts(SearchResult result, const ModelSpec& model, const Workload& workload,
                                               const Cluster& cluster, const PlacementSpace& space);

}  // namespace moeplan::planner
