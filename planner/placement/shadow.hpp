// Replicas that serve their own rank's tokens alone, as [FasterMoE] and [Pro-Prophet] use them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/placement/placement.hpp"

namespace moeplan::planner {

/// Free slots by rank.
[[nodiscard]] std::vector<std::int64_t> slots_free(const Placement& placement, const PlacementDevices& devices);

/// Makes every rank with a free slot a holder without a share, save those marked in `without` (empty: none): sources
/// there keep their tokens, the others' go to the home. Nothing but the home may hold the expert before. Takes the
/// slots.
void shadow(ExpertPlacement& place, std::vector<std::int64_t>& free, std::span<const char> without = {});

/// Experts by descending load; ties: the lowest first.
[[nodiscard]] std::vector<std::size_t> heaviest_first(std::span<const std::int64_t> loads);

}  // namespace moeplan::planner
