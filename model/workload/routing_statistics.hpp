// Statistics of a routing: load imbalance, and its change over time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/workload/routing_trace.hpp"

namespace moeplan {

/// The largest load over the mean load: 1 is perfectly balanced. 1 if there is no load.
[[nodiscard]] double max_over_mean(std::span<const std::int64_t> load);

/// Population standard deviation of the loads: the "balance degree" of [Pro-Prophet] sec. VI-C.
[[nodiscard]] double balance_degree(std::span<const std::int64_t> load);

/// Entropy of the normalised loads, relative to that of equal loads: 1 is even, 0 is all load on one expert. 1 if there
/// is only one expert.
[[nodiscard]] double relative_entropy(std::span<const std::int64_t> load);

/// Drift from one load distribution to another: total variation distance, half the sum of |p - q| over the normalised
/// loads. 0: identical, 1: disjoint. 0 if either has no load.
[[nodiscard]] double drift(std::span<const std::int64_t> before, std::span<const std::int64_t> after);

/// Statistics of one layer over the iterations of a trace.
struct LayerRouting {
  double mean_max_over_mean = 1;  // of the experts' loads
  double most_max_over_mean = 1;
  double mean_rank_max_over_mean = 1;  // of the loads of ranks that hold equally many consecutive experts
  double mean_entropy = 1;             // relative_entropy
  double mean_drift = 0;               // between consecutive iterations of the trace
  double most_drift = 0;
  /// Locality: the fraction of the tokens that the previous iteration's distribution predicts, sum of min(p, q) = 1 -
  /// drift. [R]: [Pro-Prophet] sec. II shows it as a figure and gives no formula.
  double locality = 1;
};

/// Statistics by layer, with the experts on `ranks` ranks.
[[nodiscard]] std::vector<LayerRouting> trace_statistics(const RoutingTrace& trace, std::int64_t ranks);

}  // namespace moeplan
