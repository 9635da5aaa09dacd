// Minimisation of a function of a few positive numbers without derivatives.
#pragma once

#include <functional>
#include <span>
#include <vector>

namespace moeplan::profiler {

/// The numbers that give the least `error`, from `start` on: each number is multiplied and divided by a step in turn,
/// steps that succeed grow, the others shrink, until all are below 0.5 %. Numbers that are 0 stay 0. A local minimum;
/// deterministic.
[[nodiscard]] std::vector<double> pattern_search(std::vector<double> start,
                                                 const std::function<double(std::span<const double>)>& error);

}  // namespace moeplan::profiler
