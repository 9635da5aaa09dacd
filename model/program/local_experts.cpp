#include "model/program/local_experts.hpp"

#include "model/base/whole_numbers.hpp"

namespace moeplan {

ExpertRange local_experts(const Program& program, RoutingId routing, RankId rank) {
  const RoutingTable& table = program.routings[routing.index()];
  const GroupFamily& family = program.group(table.holders);
  const std::int64_t experts = table.counts.experts(), position = family.position(rank);
  return {share_begin(experts, position, family.size), share_begin(experts, position + 1, family.size)};
}

}  // namespace moeplan
