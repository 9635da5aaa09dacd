// A placement as a Program has it: slots on ranks, and counts by source and slot.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/program/program.hpp"
#include "planner/placement/placement.hpp"

namespace moeplan::planner {

/// Slots are as many on every position of the holders' group as the fullest fills (a second copy of an expert on one
/// rank is an empty slot: it serves nobody); experts in order, empty slots last.
struct PlacedRouting {
  RoutingCounts counts;                          // by source and slot
  std::vector<std::optional<ExpertSlot>> slots;  // as RoutingTable has them
};

/// `counts` by source and expert. The ranks of the placement are the positions in a group of `holders`; every group is
/// placed alike, and each divides the tokens of its own members among its holders (divide.hpp). `near`: how many
/// consecutive positions share a node.
[[nodiscard]] PlacedRouting placed(const RoutingCounts& counts, const Placement& placement, const GroupFamily& holders,
                                   std::int64_t near);

/// Tokens by position in a group and expert, of all groups together: what a placement is planned for.
[[nodiscard]] RoutingCounts counts_by_position(const RoutingCounts& counts, const GroupFamily& holders);

/// What a rank holds.
struct SlotUse {
  std::int64_t homes = 0;
  std::int64_t copies = 0;  // of other ranks' experts, and second copies of one
  bool operator==(const SlotUse&) const = default;
};
/// By rank.
[[nodiscard]] std::vector<SlotUse> slot_use(const Placement& placement, std::int64_t ranks);

}  // namespace moeplan::planner
