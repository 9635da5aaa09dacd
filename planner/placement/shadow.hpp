// Shadowing: replicas that only serve their own rank's tokens, as in [FasterMoE] and [Pro-Prophet].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/placement/placement.hpp"

namespace moeplan::planner {

/// The number of free slots by rank.
[[nodiscard]] std::vector<std::int64_t> slots_free(const Placement& placement, const PlacementDevices& devices);

/// Makes every rank with a free slot a holder without a share, except the ranks marked in `without` (empty: none).
/// Sources on these ranks keep their tokens; the other tokens go to the home. Before the call the home must be the only
/// holder. Decrements the free slots that are used.
void shadow(ExpertPlacement& place, std::vector<std::int64_t>& free, std::span<const char> without = {});

/// Experts by descending load; ties: the lowest index first.
[[nodiscard]] std::vector<std::size_t> heaviest_first(std::span<const std::int64_t> loads);

}  // namespace moeplan::planner
