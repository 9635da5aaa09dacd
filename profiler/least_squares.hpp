// Least squares with no negative unknowns.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace moeplan::profiler {

/// The x >= 0 of least |A x - b|, by the active-set method of Lawson and Hanson (Solving Least Squares Problems, 1974,
/// ch. 23). `a` is row by row, with `unknowns` columns and as many rows as `b`. For few unknowns.
[[nodiscard]] std::vector<double> non_negative_least_squares(std::span<const double> a, std::size_t unknowns,
                                                             std::span<const double> b);

}  // namespace moeplan::profiler
