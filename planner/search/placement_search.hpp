// Placing the experts of the best candidates of a search: what fits is simulated and ranked with the others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/search/search.hpp"

namespace moeplan::planner {

struct PlacementSpace {
  /// A name of planner/placement/strategy.hpp; absent: contiguous, or `auto` where that is faster.
  std::optional<std::string> placement = {};
  std::optional<std::int64_t> redundant_experts = {};  // absent: 0, 1, 2 and 4 are tried
  std::int64_t most_placed = 2;  // simulated candidates whose experts are placed; of a placement asked for, 8
  std::int64_t most_ranks = 64;  // of a stage, unless a placement is asked for: ranks differ then
  int threads = 0;               // 0: one a core
};

/// The result with placed candidates among the ranked ones, again by makespan; of a placement asked for, with these
/// alone (perhaps none). Nothing is tried where loads of ranks are even, within 5%. With up to two kinds of routing
/// `auto` goes by simulated layers, else by the closed form. Does not depend on threads.
[[nodiscard]] SearchResult with_placed_experts(SearchResult result, const ModelSpec& model, const Workload& workload,
                                               const Cluster& cluster, const PlacementSpace& space);

}  // namespace moeplan::planner
