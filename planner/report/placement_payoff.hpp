// The payoff of an expert placement: its gain per iteration, its cost, and the best number of redundant experts.
// Everything is simulated, as whole iterations and as the migration between two of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/sim_time.hpp"
#include "planner/placement/strategies/closed_forms.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/place_experts.hpp"

namespace moeplan::planner {

/// The outcome with `redundant` slots per rank beyond an equal division of the experts.
struct RedundantExperts {
  std::int64_t redundant;
  Bytes memory;  // additional memory over contiguous experts on the fullest rank: weights, gradients, states
  std::optional<SimTime> makespan;  // of the iteration; none if it does not fit or the strategy has no placement
};

/// Gain and cost of one placement. Imbalance is the largest over the mean load of the ranks.
struct PlacementPayoff {
  std::string strategy;            // the plan's strategy, or `auto` if the plan's experts are contiguous
  std::int64_t redundant_experts;  // the plan's number, or that of the fastest placement
  double imbalance_before;         // with contiguous experts, in the layer where it is largest
  double imbalance;                // with the placement
  PlacementForms forms_before;     // the papers' closed forms of that layer, with contiguous experts
  PlacementForms forms;            // with the placement
  SimTime contiguous;              // makespan of the iteration with contiguous experts
  SimTime placed;                  // makespan of the iteration with the placement
  Seconds weights;                 // sending weights to copies, on the binding rank, whether overlapped or not
  Seconds gradients;               // sending gradients home from copies, on the binding rank
  Seconds migration;  // once, from contiguous experts: homes with optimizer states; without training, replicas
  Bytes memory;       // additional memory over contiguous experts on the fullest rank
  /// Break-even point: the number of iterations after which the gain exceeds the migration time; none if there is no
  /// gain.
  std::optional<double> break_even;
  /// For a recorded routing, the lifetime of the placement in training iterations: from the iteration that it was
  /// planned for to the first one of the trace in which it no longer gains (by the closed form). `outlasts_trace`: the
  /// trace ended before.
  std::optional<std::int64_t> lasts;
  bool outlasts_trace = false;
  /// The same for several numbers of redundant experts.
  std::vector<RedundantExperts> curve;

  [[nodiscard]] Seconds gain() const { return contiguous.seconds() - placed.seconds(); }
  /// Whether the placement gains and, if its lifetime is known, reaches its break-even point.
  [[nodiscard]] bool breaks_even() const;
  /// The number of redundant experts with the least makespan in `curve`; none if no placement beats contiguous experts.
  [[nodiscard]] std::optional<std::int64_t> best_redundancy() const;
};

/// The payoff for a candidate with the given `prediction`. None if there is nothing to place or to compare with: no
/// layer has experts on several ranks, contiguous experts do not fit, or, unless the plan itself places experts, their
/// loads are even (within 5%) or a stage has more than `most_ranks` ranks.
[[nodiscard]] std::optional<PlacementPayoff> placement_payoff(const Problem& problem, const Candidate& candidate,
                                                              const Prediction& prediction,
                                                              std::int64_t most_ranks = 64);

}  // namespace moeplan::planner
