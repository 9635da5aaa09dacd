// Divisible loads on machines of which each load may use some: the least possible largest load, in whole numbers.
//
// A transportation problem: T is feasible if a flow from loads to machines with T - fixed left serves every load in
// full; flows between whole capacities are whole (Ford and Fulkerson, 1956), so the linear programme loses nothing. T
// is found by Newton's steps on cuts (Dinkelbach, 1967): where T does not suffice, the loads that a minimum cut
// confines to a set S of machines need at least (fixed(S) + loads) / |S|, rounded up, which is the next T.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moeplan::planner {

struct DivisibleLoad {
  std::int64_t amount;
  std::vector<std::int32_t> machines;  // different; at least one
};

struct BalancedParts {
  std::int64_t largest = 0;                      // of fixed + parts; no division has a smaller one
  std::vector<std::vector<std::int64_t>> parts;  // by load, by its machines
};

/// O(machines) maximum flows at most, seldom more than a few.
[[nodiscard]] BalancedParts balanced_parts(std::span<const std::int64_t> fixed, std::span<const DivisibleLoad> loads);

}  // namespace moeplan::planner
