#include "model/program/local_experts.hpp"

#include <algorithm>

namespace moeplan {

ExpertRange local_experts(const Program& program, RoutingId routing, RankId rank) {
  const RoutingTable& table = program.routings[routing.index()];
  const GroupFamily& family = program.group(table.holders);
  const std::int64_t experts = table.counts.experts();
  const std::int64_t position = family.position(rank);
  const std::int64_t base = experts / family.size, extra = experts % family.size;
  const std::int64_t first = position * base + std::min(position, extra);
  return {first, first + base + (position < extra ? 1 : 0)};
}

}  // namespace moeplan
