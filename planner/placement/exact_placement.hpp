// The best placement of experts with one holder each, exactly: branch and bound.
//
// exact_load(): the least largest load of a rank, at most `slots` experts on each. Ranks are equal, so a solution is a
// partition of the experts; it is found bin by bin (Korf, "Multi-way number partitioning", IJCAI 2009): each next rank
// gets the heaviest expert left and a set of others, so that no two orders of ranks are ever tried. A set must be light
// enough to beat the best found and heavy enough that the rest can still fit; sets of experts that failed are not tried
// again, and of experts with equal loads the first go first.
//
// exact_price(): the least layer_time(). Sources tell ranks apart here, so experts are placed one by one, heaviest
// first. Of ranks that are empty and whose sources count the same, in nodes alike so far, only the first is tried. A
// branch ends where a bound on its price reaches the best found: the largest load so far or the mean; on every port
// what has passed so far; what no rank can keep from its port.
//
// Exponential in the worst case: the budget is a number of nodes, so that answers do not depend on the machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/placement/layer_time.hpp"

namespace moeplan {

inline constexpr std::int64_t kMostExactExperts = 64;
inline constexpr std::int64_t kExactPlacementBudget = 2'000'000;

struct ExactLoad {
  std::vector<std::int64_t> homes;  // by expert
  std::int64_t largest = 0;         // load of a rank
  std::int64_t lower_bound = 0;     // of every placement
  bool proved = false;              // largest == lower_bound
  std::int64_t nodes = 0;
};
/// At most kMostExactExperts experts; slots * ranks >= experts.
[[nodiscard]] ExactLoad exact_load(std::span<const std::int64_t> loads, std::int64_t ranks, std::int64_t slots,
                                   std::int64_t budget = kExactPlacementBudget);

struct ExactPrice {
  std::vector<std::int64_t> homes;
  Seconds price{};
  bool proved = false;
  std::int64_t nodes = 0;
};
/// Starts from `start`'s homes (one holder each).
[[nodiscard]] ExactPrice exact_price(const RoutingCounts& counts, const PlacementDevices& devices,
                                     const std::vector<std::int64_t>& start,
                                     std::int64_t budget = kExactPlacementBudget);

}  // namespace moeplan
