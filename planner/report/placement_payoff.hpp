// Does rebalancing pay? What a placement of experts gains in an iteration, what it costs, and how many redundant
// experts are worth it. Everything is simulated, as whole iterations and the moving between two of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/sim_time.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/place_experts.hpp"

namespace moeplan::planner {

/// So many slots a rank beyond its share of the experts.
struct RedundantExperts {
  std::int64_t redundant;
  Bytes memory;  // more than contiguous experts need, on the fullest rank: weights, gradients, states
  std::optional<SimTime> makespan;  // of the iteration; none where it does not fit, or has no answer
};

struct PlacementPayoff {
  std::string strategy;            // the plan's, or `auto` where the plan's experts are contiguous
  std::int64_t redundant_experts;  // the plan's, or those of the fastest
  double imbalance_before;         // max/mean of the loads of ranks, of the layer where it is largest
  double imbalance;                // the same of the placement
  SimTime contiguous;              // of the iteration, experts contiguous
  SimTime placed;
  Seconds weights;    // to copies, on the binding rank: hidden or not
  Seconds gradients;  // back from them
  Seconds migration;  // once, from contiguous experts: homes with their states, or where nothing trains replicas
  Bytes memory;
  /// Iterations after which moving has paid for itself; none if it never does.
  std::optional<double> break_even;
  /// Of a recorded routing: from its iteration on to the first of the trace in which the placement no longer gains (by
  /// the closed form), in iterations of the run; and whether the trace ended before.
  std::optional<std::int64_t> lasts;
  bool outlasts_trace = false;
  std::vector<RedundantExperts> curve;

  [[nodiscard]] Seconds gain() const { return contiguous.seconds() - placed.seconds(); }
  /// It gains, and where it is known how long it lasts, that is long enough.
  [[nodiscard]] bool pays() const;
  /// Of the curve, the one with the least time; where none is less than that of contiguous experts, none.
  [[nodiscard]] std::optional<std::int64_t> worth_it() const;
};

/// None where there is nothing to place or to compare with: no experts on several ranks, contiguous ones do not fit, or
/// are loaded evenly (within 5%), or, unless the plan places experts, more than `most_ranks` in a stage. `prediction`
/// is the candidate's.
[[nodiscard]] std::optional<PlacementPayoff> placement_payoff(const ModelSpec& model, const Workload& workload,
                                                              const Cluster& cluster, const Candidate& candidate,
                                                              const Prediction& prediction,
                                                              std::int64_t most_ranks = 64);

}  // namespace moeplan::planner
