// Pricing a Program without simulating it: a closed form, and a bound that no execution can beat. MODELS sections 2
// and 12.
#pragma once

#include <string>

#include "model/base/quantity.hpp"
#include "model/costs/stage_clusters.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"

namespace moeplan {

struct Estimate {
  /// Blocks one after the other; in a block, the longest chain of operations along streams and dependencies;
  /// computations by the compute model; a communication takes its start-up plus the most loaded link's time for the
  /// traffic of all its groups at once ([FasterMoE] eq. (2)) or of its most loaded rank under its cap, whichever is
  /// more. Exact where one collective is on the network at a time, all ranks are equal and the links are evenly used.
  /// A pipeline is composed of such segments (compose_stages.hpp). Background streams run beside: what of them does not
  /// fit beside the rest counts.
  Seconds closed_form;

  /// Three lower bounds on the makespan, and the largest.
  Seconds critical_path;  // of the slowest rank (of a pipeline: of one rank a stage), every operation alone on an
                          // idle machine
  Seconds compute;        // of the busiest stream of a GPU, summed over its ranks: streams compute beside one another
  Seconds links;          // of the busiest link: its traffic over its bandwidth
  Seconds lower_bound;
  std::string bound_by;  // "critical path", "compute", or the name of the busiest link
};

[[nodiscard]] Estimate estimate(const Program& program, const Cluster& cluster);
/// The same; `machines` are kept for the next question about this cluster.
[[nodiscard]] Estimate estimate(const Program& program, StageClusters& machines);

/// A lower bound on the makespan that is quick where ranks differ: the longest chain of rank 0 of each stage, every
/// operation alone on an idle machine, or its busiest stream. Never more than estimate()'s, up to rounding.
[[nodiscard]] Seconds bound_by_first_rank(const Program& program, StageClusters& machines);

/// Whether estimate() has to look at every rank: no few of them can be shown to represent all.
[[nodiscard]] bool has_asymmetric_ranks(const Program& program, StageClusters& machines);

}  // namespace moeplan
