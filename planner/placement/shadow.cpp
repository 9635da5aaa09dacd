#include "planner/placement/shadow.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace moeplan::planner {

std::vector<std::int64_t> slots_free(const Placement& placement, const PlacementDevices& devices) {
  std::vector<std::int64_t> free = slots_filled(placement, devices.ranks);
  for (std::int64_t& f : free) f = devices.slots - f;
  return free;
}

void shadow(ExpertPlacement& place, std::vector<std::int64_t>& free, std::span<const char> without) {
  assert(place.holders.size() == 1 && "an expert is shadowed once");
  place.holders.clear();
  for (std::size_t r = 0; r < free.size(); ++r) {
    const RankId rank(r);
    if (rank == place.home) {
      place.holders.push_back({rank, 1, 1});
    } else if (free[r] > 0 && (without.empty() || !without[r])) {
      place.holders.push_back({rank, 0, 1});
      --free[r];
    }
  }
}

std::vector<std::size_t> heaviest_first(std::span<const std::int64_t> loads) {
  std::vector<std::size_t> order(loads.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return loads[a] > loads[b]; });
  return order;
}

}  // namespace moeplan::planner
