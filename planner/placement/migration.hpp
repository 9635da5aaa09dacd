// The transfers that turn one expert placement into another.
#pragma once

#include <vector>

#include "planner/placement/placement.hpp"

namespace moeplan::planner {

/// One expert's transfer between two ranks.
struct ExpertMove {
  ExpertId expert;
  RankId from;
  RankId to;
  bool operator==(const ExpertMove&) const = default;
};

/// The necessary transfers, ordered by expert, then receiver. In training, from the old home to every home that
/// changes: only the home has the optimizer states and the newest weights, and copies receive theirs in every iteration
/// anyway. Otherwise, from the nearest former holder to every new one: a holder in the same node if there is one; ties:
/// the one with the fewest transfers so far, then the lowest rank.
[[nodiscard]] std::vector<ExpertMove> expert_moves(const Placement& from, const Placement& to,
                                                   std::int64_t ranks_per_node, bool trains);

}  // namespace moeplan::planner
