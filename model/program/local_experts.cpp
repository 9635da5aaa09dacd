#include "model/program/local_experts.hpp"

#include "model/base/whole_numbers.hpp"

namespace moeplan {

ExpertRange share_of_experts(std::int64_t experts, std::int64_t position, std::int64_t holders) {
  return {ceil_div(position * experts, holders), ceil_div((position + 1) * experts, holders)};
}

ExpertRange local_experts(const Program& program, RoutingId routing, RankId rank) {
  const RoutingTable& table = program.routings[routing.index()];
  const GroupFamily& family = program.group(table.holders);
  return share_of_experts(table.counts.experts(), family.position(rank), family.size);
}

}  // namespace moeplan
