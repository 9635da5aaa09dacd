// Replay of a placement strategy over a routing trace: placements are planned from past iterations and applied to later
// ones.
//
// It quantifies the payoff of rebalancing: a placement planned at one iteration serves the following ones until the
// loads have drifted, and costs expert migration, planning time, and the memory of replicas.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/workload/routing_trace.hpp"
#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

/// When and how placements are planned.
struct ReplayOptions {
  PlacementDevices devices;
  PlacementOptions options{};
  /// q of [Pro-Prophet]: every so many iterations of the trace all layers are planned from the counts of the preceding
  /// iteration. The first iteration uses `contiguous`.
  std::int64_t interval = 1;
  /// If set, replaces `interval`: a layer is planned again when the last known loads have drifted this far (drift(),
  /// total variation) from the loads it was planned for.
  std::optional<double> drift_trigger{};
  /// Plans from the counts of the same iteration: the upper limit given perfect prediction.
  bool foresight = false;
  /// Time for planning one layer. Planning overlaps with the exchange of the preceding iteration; only the excess is
  /// charged.
  Seconds plan_time{};
};

/// The result for one layer in one iteration.
struct ReplayRow {
  std::size_t iteration;  // index in the trace
  std::int64_t layer;
  bool planned;                   // whether the layer was planned for this iteration
  double max_over_mean_before{};  // of the ranks' loads with `contiguous`
  double max_over_mean{};
  double rb{};            // balance degree before / after ([Pro-Prophet] VI-C); infinite if after is perfectly even
  Seconds time_before{};  // layer_time() of `contiguous`
  Seconds time{};         // layer_time() of the placement with this iteration's counts
  Seconds migration{};    // charged once, when planned
  Seconds plan{};         // excess of planning over the exchange
};

/// The results of a replay and their sums and means.
struct ReplayTable {
  std::vector<ReplayRow> rows;  // by iteration, then layer
  std::int64_t plans = 0;
  Seconds time_before{};  // sums over the rows
  Seconds time{};
  Seconds migration{};
  Seconds plan{};
  double mean_max_over_mean_before = 0;
  double mean_max_over_mean = 0;
  double mean_rb = 0;  // geometric mean of the finite ones

  [[nodiscard]] Seconds total() const { return time + migration + plan; }
  [[nodiscard]] double speedup() const { return time_before / total(); }
};

/// Replays a trace. Layers for which the strategy has no placement use `contiguous`. The trace must have as many
/// sources as the devices have ranks.
[[nodiscard]] ReplayTable replay(const RoutingTrace& trace, const PlacementStrategy& strategy,
                                 const ReplayOptions& options);

/// The break-even analysis of one plan for one layer, made from iteration `from` of a trace and used from the next
/// iteration on.
struct BreakEven {
  Seconds gain{};  // per iteration, mean over its lifetime
  Seconds cost{};  // of migration, and of planning beyond the exchange
  Bytes memory{};  // of the replicas on the rank with most of them: parameters and gradients
  /// Lifetime: iterations of the trace after `from` before the first one in which it is no faster than `contiguous`.
  std::int64_t lasts = 0;
  /// Training iterations until the break-even point; none if it is never reached.
  std::optional<double> iterations{};
  bool breaks_even = false;  // reaches break-even within its lifetime: lasts * spacing >= iterations
};
/// `spacing`: training iterations between consecutive iterations of the trace.
[[nodiscard]] BreakEven break_even(const RoutingTrace& trace, std::int64_t layer, std::size_t from,
                                   std::int64_t spacing, const PlacementStrategy& strategy,
                                   const ReplayOptions& options);

/// The benefit of a given number of redundant experts.
struct RedundancyPoint {
  std::int64_t redundant;  // slots per rank beyond an equal division of the experts
  Bytes memory{};          // of these slots on each rank: parameters and, in training, gradients
  Seconds time{};          // mean layer_time() over the iterations
  double max_over_mean{};  // of the ranks' loads, mean over the iterations
};
/// The benefit of 0 .. `most` redundant slots for one layer. Placements are planned from the preceding iteration; the
/// mean is over all iterations except the first.
[[nodiscard]] std::vector<RedundancyPoint> redundancy_curve(const RoutingTrace& trace, std::int64_t layer,
                                                            std::int64_t most, const PlacementStrategy& strategy,
                                                            const ReplayOptions& options);

}  // namespace moeplan::planner
