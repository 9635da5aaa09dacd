// Conversion of a placement to a Program's form: slots on ranks, and routing counts by source and slot.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/program/program.hpp"
#include "planner/placement/placement.hpp"

namespace moeplan::planner {

/// Routing by slots. Every position of the holders' group has as many slots as the fullest one fills (a second copy of
/// an expert on one rank is an empty slot, which receives no tokens); experts in order, empty slots last.
struct PlacedRouting {
  RoutingCounts counts;                          // by source and slot
  std::vector<std::optional<ExpertSlot>> slots;  // as in RoutingTable
};

/// The slots and counts for a placement; `counts` by source and expert. The ranks of the placement are positions in a
/// group of `holders`; every group has the same placement, and each divides the tokens of its own members among its
/// holders (divide.hpp). `near`: the number of consecutive positions that share a node.
[[nodiscard]] PlacedRouting placed(const RoutingCounts& counts, const Placement& placement, const GroupFamily& holders,
                                   std::int64_t near);

/// Token counts by position in a group and by expert, summed over all groups: the input for planning a placement.
[[nodiscard]] RoutingCounts counts_by_position(const RoutingCounts& counts, const GroupFamily& holders);

/// The number of homes and copies on a rank.
struct SlotUse {
  std::int64_t homes = 0;
  std::int64_t copies = 0;  // of other ranks' experts, and second copies of one expert
  bool operator==(const SlotUse&) const = default;
};
/// The slot use by rank.
[[nodiscard]] std::vector<SlotUse> slot_use(const Placement& placement, std::int64_t ranks);

}  // namespace moeplan::planner
