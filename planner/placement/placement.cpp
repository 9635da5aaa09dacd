#include "planner/placement/placement.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/whole_numbers.hpp"

namespace moeplan::planner {

namespace {

bool before(const ExpertHolder& holder, RankId rank) { return holder.rank < rank; }

}  // namespace

const ExpertHolder* ExpertPlacement::holder(RankId rank) const {
  const auto it = std::lower_bound(holders.begin(), holders.end(), rank, before);
  return it != holders.end() && it->rank == rank ? &*it : nullptr;
}

void add_holder(ExpertPlacement& place, RankId rank, std::int64_t share) {
  const auto it = std::lower_bound(place.holders.begin(), place.holders.end(), rank, before);
  if (it == place.holders.end() || it->rank != rank) {
    place.holders.insert(it, {rank, share, 1});
    return;
  }
  it->share += share;
  ++it->copies;
}

std::optional<std::string> placement_error(const Placement& placement, const PlacementDevices& devices,
                                           std::int64_t experts) {
  if (static_cast<std::int64_t>(placement.experts.size()) != experts) {
    return fmt::format("places {} experts of {}", placement.experts.size(), experts);
  }
  for (std::size_t e = 0; e < placement.experts.size(); ++e) {
    const ExpertPlacement& place = placement.experts[e];
    std::int64_t shares = 0;
    for (std::size_t h = 0; h < place.holders.size(); ++h) {
      const ExpertHolder& holder = place.holders[h];
      if (holder.rank.value() < 0 || holder.rank.value() >= devices.ranks) {
        return fmt::format("expert {} is held by rank {} of {}", e, holder.rank.value(), devices.ranks);
      }
      if (h > 0 && !(place.holders[h - 1].rank < holder.rank)) {
        return fmt::format("the holders of expert {} are out of order", e);
      }
      if (holder.share < 0 || holder.copies < 1) return fmt::format("expert {} has a holder of nothing", e);
      shares += holder.share;
    }
    if (shares <= 0) return fmt::format("no holder of expert {} has a share", e);
    if (!place.holder(place.home)) return fmt::format("the home of expert {} does not hold it", e);
  }
  const std::vector<std::int64_t> filled = slots_filled(placement, devices.ranks);
  for (std::size_t r = 0; r < filled.size(); ++r) {
    if (filled[r] > devices.slots) return fmt::format("rank {} fills {} slots of {}", r, filled[r], devices.slots);
  }
  return std::nullopt;
}

std::vector<std::int64_t> slots_filled(const Placement& placement, std::int64_t ranks) {
  std::vector<std::int64_t> filled(static_cast<std::size_t>(ranks), 0);
  for (const ExpertPlacement& place : placement.experts) {
    for (const ExpertHolder& holder : place.holders) filled[holder.rank.index()] += holder.copies;
  }
  return filled;
}

Placement contiguous_placement(std::int64_t experts, std::int64_t ranks) {
  std::vector<std::int64_t> homes(static_cast<std::size_t>(experts));
  for (std::int64_t r = 0; r < ranks; ++r) {
    std::fill(homes.begin() + share_begin(experts, r, ranks), homes.begin() + share_begin(experts, r + 1, ranks), r);
  }
  return placement_of_homes(homes);
}

Placement placement_of_homes(const std::vector<std::int64_t>& homes) {
  Placement placement;
  placement.experts.reserve(homes.size());
  for (const std::int64_t home : homes) {
    const RankId rank(static_cast<std::int32_t>(home));
    placement.experts.push_back({rank, {{rank, 1, 1}}});
  }
  return placement;
}

}  // namespace moeplan::planner
