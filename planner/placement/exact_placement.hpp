// The best placement of experts with one holder each, exactly: branch and bound.
//
// exact_load(): the least largest load of a rank, at most `slots` experts on each. Ranks are equal, so a solution is a
// partition of the experts; it is found bin by bin (Korf, "Multi-way number partitioning", IJCAI 2009): each next rank
// gets the heaviest expert left and a set of others, so that no two orders of ranks are ever tried. A set must be light
// enough to beat the best found and heavy enough that the rest can still fit; sets of experts that failed are not tried
// again, and of experts with equal loads the first go first.
//
// exact_price(): the least layer_time(), in two steps, since ranks of a node are told apart by traffic inside it alone,
// which seldom decides. First every expert gets a node, heaviest first: that settles what each rank and node sends out,
// and what each node takes in. A branch ends where a bound on its price reaches the best found: of every port what has
// passed so far and the least that the experts left add to it, by how many of them must go there; of loads the mean of
// the fullest node; of the rank with an expert, load and traffic of that expert and the fewest that must be beside it.
// Nodes that are empty and alike are tried once. Then the experts of each node are divided among its ranks
// (rank_fronts.hpp). Where the ports inside a node are busiest after all, ranks are tried one by one, bounded alike.
//
// Exponential in the worst case: the budget is a number of nodes, so that answers do not depend on the machine. What is
// found then comes with a bound that no placement is below.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/placement/layer_time.hpp"

namespace moeplan::planner {

inline constexpr std::int64_t kMostExactExperts = 64;
inline constexpr std::int64_t kExactPlacementBudget = 20'000'000;

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
  Seconds lower_bound{};  // of every placement
  bool proved = false;    // price == lower_bound
  std::int64_t nodes = 0;
};
/// Up to rounding, 1e-12. Starts from `start`'s homes (one holder each, within the slots). At most kMostExactExperts
/// experts.
[[nodiscard]] ExactPrice exact_price(const RoutingCounts& counts, const PlacementDevices& devices,
                                     const std::vector<std::int64_t>& start,
                                     std::int64_t budget = kExactPlacementBudget);

}  // namespace moeplan::planner
