// Non-negative linear least squares.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace moeplan::profiler {

/// The x >= 0 that minimises |A x - b|, by the active-set method of Lawson and Hanson (Solving Least Squares Problems,
/// 1974, ch. 23). `a` is row-major, with `unknowns` columns and b.size() rows. For small numbers of unknowns.
[[nodiscard]] std::vector<double> non_negative_least_squares(std::span<const double> a, std::size_t unknowns,
                                                             std::span<const double> b);

}  // namespace moeplan::profiler
