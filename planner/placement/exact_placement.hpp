// Exact branch-and-bound search for the best placement of experts with one holder each.
//
// exact_load(): the minimal largest load of a rank with at most `slots` experts on each. Ranks are equivalent, so a
// solution is a partition of the experts, which is built bin by bin (Korf, "Multi-way number partitioning", IJCAI
// 2009): each next rank receives the heaviest remaining expert and a set of others, so that permutations of ranks are
// never tried. A set must be light enough to beat the best solution found and heavy enough that the rest can still fit;
// sets of experts that failed are not tried again, and experts with equal loads are used in order.
//
// exact_price(): the minimal layer_time(). It proceeds in two steps, because ranks of a node differ only in traffic
// within the node, which is rarely the bottleneck. First every expert is assigned to a node, heaviest first; that
// determines what each rank and node sends, and what each node receives. A branch is pruned when a lower bound on its
// price reaches the best price found. The bound takes, for every port, the traffic so far and the least that the
// remaining experts add, given how many of them must go there; for loads, the mean of the fullest node; and for the
// rank of an expert, the load and traffic of that expert and of the fewest experts that must share its rank. Of empty
// equivalent nodes only one is tried. Then the experts of each node are divided among its ranks
// (tests/support/rank_fronts.hpp). If ports within a node turn out to be the bottleneck, ranks are tried one by one
// with the same kind of bound.
//
// The worst case is exponential. The budget is a number of search nodes, so that results do not depend on the host. If
// it runs out, the result comes with a lower bound over all placements.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/placement/layer_time.hpp"

namespace moeplan::planner {

/// The largest number of experts that the searches accept, and their default budget in search nodes.
inline constexpr std::int64_t kMostExactExperts = 64;
inline constexpr std::int64_t kExactPlacementBudget = 20'000'000;

/// The result of exact_load().
struct ExactLoad {
  std::vector<std::int64_t> homes;  // by expert
  std::int64_t largest = 0;         // largest load of a rank
  std::int64_t lower_bound = 0;     // over all placements
  bool proved = false;              // largest == lower_bound
  std::int64_t nodes = 0;
};
/// A placement with minimal largest load. At most kMostExactExperts experts; slots * ranks >= experts.
[[nodiscard]] ExactLoad exact_load(std::span<const std::int64_t> loads, std::int64_t ranks, std::int64_t slots,
                                   std::int64_t budget = kExactPlacementBudget);

/// The result of exact_price().
struct ExactPrice {
  std::vector<std::int64_t> homes;
  Seconds price{};
  Seconds lower_bound{};  // over all placements
  bool proved = false;    // price == lower_bound
  std::int64_t nodes = 0;
};
/// A placement with minimal layer_time(), up to rounding (1e-12). The search starts from the homes in `start` (one
/// holder each, within the slots). At most kMostExactExperts experts.
[[nodiscard]] ExactPrice exact_price(const RoutingCounts& counts, const PlacementDevices& devices,
                                     const std::vector<std::int64_t>& start,
                                     std::int64_t budget = kExactPlacementBudget);

}  // namespace moeplan::planner
