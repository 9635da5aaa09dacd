// The max-min fair allocation of flows to resources, by progressive filling. Pure; knows nothing of time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moeplan::sim {

/// Flows as a sparse matrix: flow f crosses resource[k] with share[k] for first[f] <= k < first[f + 1].
struct MaxMinProblem {
  std::span<const double> capacity;        // of each resource, > 0, perhaps infinite
  std::span<const double> weight;          // of each flow, > 0: so many equal single flows
  std::span<const std::int32_t> first;     // one more than there are flows
  std::span<const std::int32_t> resource;  // a resource may stand twice in a flow: its shares add up
  std::span<const double> share;           // > 0
};

/// The rate of each single flow under the definition in network.hpp; infinite for a flow that no finite resource holds
/// back. All flows grow together; when a resource is full, its flows stop and the others go on: the rate at which a
/// resource fills is (C - what stopped flows take) / (weight of the others), and the least of those is next
/// ([Bertsekas, Gallager] sec. 6.5.2). O(resources * bottlenecks + size of the matrix).
[[nodiscard]] std::vector<double> max_min_rates(const MaxMinProblem& problem);

/// How far rates are from the definition: the largest of
///   (load - C) / C over resources, and
///   min over the finite resources on f's way of max(1 - load / C, 1 - r_f / fastest rate on it) over flows f.
/// 0 (up to rounding) if and only if the rates are the max-min allocation.
[[nodiscard]] double max_min_violation(const MaxMinProblem& problem, std::span<const double> rate);

}  // namespace moeplan::sim
