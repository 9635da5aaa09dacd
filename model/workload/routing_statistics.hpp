// How uneven routing is, and how fast it changes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/workload/routing_trace.hpp"

namespace moeplan {

/// The largest load over the mean load: 1 is perfect. 1 where there is no load at all.
[[nodiscard]] double max_over_mean(std::span<const std::int64_t> load);

/// Standard deviation of the loads (over all of them, not of a sample): the "balance degree" of [Pro-Prophet] sec.
/// VI-C.
[[nodiscard]] double balance_degree(std::span<const std::int64_t> load);

/// Entropy of the loads as shares, over that of equal loads: 1 is even, 0 is all on one. 1 where there is one expert.
[[nodiscard]] double relative_entropy(std::span<const std::int64_t> load);

/// Drift from one distribution to another: total variation distance, half the sum of |p - q| over the shares. 0 is the
/// same, 1 is nothing in common. 0 where either has no load.
[[nodiscard]] double drift(std::span<const std::int64_t> before, std::span<const std::int64_t> after);

/// One layer over the iterations of a trace.
struct LayerRouting {
  double mean_max_over_mean = 1;  // of the experts' loads
  double most_max_over_mean = 1;
  double mean_rank_max_over_mean = 1;  // of ranks that hold equal shares of consecutive experts
  double mean_entropy = 1;             // relative_entropy
  double mean_drift = 0;               // between neighbours of the trace's iterations
  double most_drift = 0;
  /// Locality: the share of the tokens that the distribution of the iteration before foretells, sum of min(p, q) =
  /// 1 - drift. [R]: [Pro-Prophet] sec. II shows it as a figure and gives no formula.
  double locality = 1;
};

/// By layer; experts on `ranks` ranks.
[[nodiscard]] std::vector<LayerRouting> trace_statistics(const RoutingTrace& trace, std::int64_t ranks);

}  // namespace moeplan
