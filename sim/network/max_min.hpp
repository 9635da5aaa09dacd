// Max-min fair allocation of flows to resources by progressive filling. A pure function without a notion of time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moeplan::sim {

/// Flows and resources as a sparse matrix: flow f crosses resource[k] with share[k] for first[f] <= k < first[f + 1].
struct MaxMinProblem {
  std::span<const double> capacity;        // by resource, > 0, may be infinite
  std::span<const double> weight;          // by flow, > 0: the number of equal single flows
  std::span<const std::int32_t> first;     // by flow, and one more entry at the end
  std::span<const std::int32_t> resource;  // a resource may occur twice in a flow: its shares add up
  std::span<const double> share;           // > 0
};

/// The rate of each single flow under the definition in network.hpp; infinite for a flow that crosses no finite
/// resource. All flows grow at the same rate; when a resource is full, its flows stop growing and the others continue.
/// A resource is full at the rate (C - load of the stopped flows) / (load of the others per unit of rate), and the
/// resource with the lowest such rate is next ([Bertsekas, Gallager] sec. 6.5.2).
/// O(resources * bottlenecks + size of the matrix).
[[nodiscard]] std::vector<double> max_min_rates(const MaxMinProblem& problem);

/// The violation of the definition by given rates: the largest of
///   (load - C) / C over all resources, and
///   min over the finite resources on f's path of max(1 - load / C, 1 - r_f / highest rate on it) over all flows f.
/// Zero (up to rounding) if and only if the rates are the max-min allocation.
[[nodiscard]] double max_min_violation(const MaxMinProblem& problem, std::span<const double> rate);

}  // namespace moeplan::sim
