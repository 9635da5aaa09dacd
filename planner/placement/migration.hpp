// What moves when experts go from one placement to another.
#pragma once

#include <vector>

#include "planner/placement/placement.hpp"

namespace moeplan::planner {

struct ExpertMove {
  ExpertId expert;
  RankId from;
  RankId to;
  bool operator==(const ExpertMove&) const = default;
};

/// In training to every home that is another one than before, from that: it alone has the optimizer's states and the
/// newest weights, and copies get theirs in every iteration anyway. Else to every new holder from the nearest former
/// one: in its node, where there is one; of equals the one with the fewest to send so far, then the lowest. Ordered by
/// expert, then receiver.
[[nodiscard]] std::vector<ExpertMove> expert_moves(const Placement& from, const Placement& to,
                                                   std::int64_t ranks_per_node, bool trains);

}  // namespace moeplan::planner
