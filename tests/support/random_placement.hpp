// Random expert placements in which some experts have several holders.
#pragma once

#include <array>
#include <cstdint>

#include "model/base/random.hpp"
#include "planner/placement/placement.hpp"

namespace moeplan::tests {

using namespace planner;

/// A random placement of experts on ranks, determined by `seed`. Consecutive seeds use the three variants of Nearest
/// (off, rank, node) in turn.
inline Placement random_placement(std::int64_t experts, std::int64_t ranks, std::uint64_t seed) {
  Random random(seed, 0);
  Placement placement;
  placement.nearest = std::array{Nearest::Off, Nearest::Rank, Nearest::Node}[seed % 3];
  for (std::int64_t e = 0; e < experts; ++e) {
    ExpertPlacement place;
    const auto pick = [&](std::int64_t n) {
      return static_cast<std::int32_t>(random.bits() % static_cast<std::uint64_t>(n));
    };
    for (std::int32_t h = pick(ranks); h >= 0; --h) add_holder(place, RankId(pick(ranks)), pick(3));
    ++place.holders.front().share;
    place.home = place.holders[static_cast<std::size_t>(pick(std::ssize(place.holders)))].rank;
    placement.experts.push_back(std::move(place));
  }
  return placement;
}

}  // namespace moeplan::tests
