// Restricted assignment of divisible loads to machines: each load may be divided over a given set of machines, in whole
// numbers, so that the largest total on a machine is minimal.
//
// This is a transportation problem: a largest total T is feasible if a flow from loads to machines with capacities T -
// fixed serves every load completely; with integer capacities some maximum flow is integral (Ford and Fulkerson, 1956),
// so the linear relaxation is exact. T is found by Newton's method on cuts (Dinkelbach, 1967): if T is infeasible, the
// loads that a minimum cut confines to a set S of machines need at least (fixed(S) + loads) / |S|, rounded up, which is
// the next T.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moeplan::planner {

/// A load and the machines that may serve it.
struct DivisibleLoad {
  std::int64_t amount;
  std::vector<std::int32_t> machines;  // distinct; at least one
};

/// An optimal division.
struct BalancedParts {
  std::int64_t largest = 0;  // largest total (fixed + parts) on a machine; minimal over all divisions
  std::vector<std::vector<std::int64_t>> parts;  // by load, in the order of its machines
};

/// An optimal division for the given fixed load of each machine. At most O(machines) maximum flows, typically a few.
[[nodiscard]] BalancedParts balanced_parts(std::span<const std::int64_t> fixed, std::span<const DivisibleLoad> loads);

}  // namespace moeplan::planner
