#include "planner/placement/migration.hpp"

#include <cassert>
#include <map>
#include <tuple>

namespace moeplan::planner {

std::vector<ExpertMove> expert_moves(const Placement& from, const Placement& to, std::int64_t ranks_per_node,
                                     bool trains) {
  assert(from.experts.size() == to.experts.size() && "both place the same experts");
  std::vector<ExpertMove> moves;
  std::map<RankId, std::int64_t> sends;
  for (std::size_t e = 0; e < to.experts.size(); ++e) {
    const ExpertPlacement &before = from.experts[e], &after = to.experts[e];
    const ExpertId expert(static_cast<std::int32_t>(e));
    if (trains) {
      if (before.home != after.home) moves.push_back({expert, before.home, after.home});
      continue;
    }
    for (const ExpertHolder& holder : after.holders) {
      if (before.holder(holder.rank)) continue;
      const auto distance = [&](RankId rank) {
        const bool is_far = rank.value() / ranks_per_node != holder.rank.value() / ranks_per_node;
        return std::tuple(is_far, sends[rank], rank);
      };
      RankId nearest = before.holders.front().rank;
      for (const ExpertHolder& h : before.holders) {
        if (distance(h.rank) < distance(nearest)) nearest = h.rank;
      }
      ++sends[nearest];
      moves.push_back({expert, nearest, holder.rank});
    }
  }
  return moves;
}

}  // namespace moeplan::planner
