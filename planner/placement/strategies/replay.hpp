// Placement over time: a strategy that plans from what was known before, on a trace of what happened then.
//
// Does rebalancing pay? Planned at one iteration, a placement serves the next ones until its loads have drifted; it
// costs moving experts, the plan itself, and the memory of replicas.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/workload/routing_trace.hpp"
#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

struct ReplayOptions {
  PlacementDevices devices;
  PlacementOptions options{};
  /// q of [Pro-Prophet]: plans are made every so many iterations of the trace, in every layer, from the counts of the
  /// iteration before. The first iteration runs as `contiguous`.
  std::int64_t interval = 1;
  /// Instead: a layer is planned again when the last known loads have drifted this far (drift(), total variation) from
  /// those it was planned for.
  std::optional<double> drift_trigger{};
  /// Plans from the counts of the very iteration: what foresight would be worth.
  bool foresight = false;
  /// Of one layer's plan. It is made under the exchange of the iteration before; what exceeds that is paid.
  Seconds plan_time{};
};

/// One layer in one iteration.
struct ReplayRow {
  std::size_t iteration;  // index in the trace
  std::int64_t layer;
  bool planned;                   // anew for this iteration
  double max_over_mean_before{};  // of ranks' loads as `contiguous` would have them
  double max_over_mean{};
  double rb{};            // balance degree before / after ([Pro-Prophet] VI-C); infinite where after is even
  Seconds time_before{};  // layer_time() of `contiguous`
  Seconds time{};         // layer_time() of the placement, on the counts that came
  Seconds migration{};    // paid once, where planned
  Seconds plan{};         // what its making exceeds the exchange by
};

struct ReplayTable {
  std::vector<ReplayRow> rows;  // by iteration, layer
  std::int64_t plans = 0;
  Seconds time_before{};  // sums over the rows
  Seconds time{};
  Seconds migration{};
  Seconds plan{};
  double mean_max_over_mean_before = 0;
  double mean_max_over_mean = 0;
  double mean_rb = 0;  // geometric, of the finite ones

  [[nodiscard]] Seconds total() const { return time + migration + plan; }
  [[nodiscard]] double speedup() const { return time_before / total(); }
};

/// Layers in which the strategy has no answer run as `contiguous`. The trace has as many sources as the devices have
/// ranks.
[[nodiscard]] ReplayTable replay(const RoutingTrace& trace, const PlacementStrategy& strategy,
                                 const ReplayOptions& options);

/// One plan of one layer, made from iteration `from` of a trace and kept from the next one on.
struct BreakEven {
  Seconds gain{};  // an iteration, mean over those it lasts
  Seconds cost{};  // of moving there, and of the plan beyond the exchange
  Bytes memory{};  // of replicas on the rank with most of them: parameters and gradients
  /// Iterations of the trace after `from`, up to the first in which it is no faster than `contiguous`.
  std::int64_t lasts = 0;
  /// Iterations of training after which it has paid for itself; none if it never does.
  std::optional<double> iterations{};
  bool pays = false;  // before it has lasted: lasts * spacing >= iterations
};
/// `spacing`: iterations of training from one of the trace to the next.
[[nodiscard]] BreakEven break_even(const RoutingTrace& trace, std::int64_t layer, std::size_t from,
                                   std::int64_t spacing, const PlacementStrategy& strategy,
                                   const ReplayOptions& options);

/// How many redundant experts are worth it.
struct RedundancyPoint {
  std::int64_t redundant;  // slots a rank beyond its share of the experts
  Bytes memory{};          // of these, on each rank: parameters, and gradients where it trains
  Seconds time{};          // mean layer_time() over the iterations
  double max_over_mean{};  // mean, of ranks' loads
};
/// Of one layer, for 0 .. `most` redundant slots: planned from the iteration before, over all iterations but the first.
[[nodiscard]] std::vector<RedundancyPoint> redundancy_curve(const RoutingTrace& trace, std::int64_t layer,
                                                            std::int64_t most, const PlacementStrategy& strategy,
                                                            const ReplayOptions& options);

}  // namespace moeplan::planner
