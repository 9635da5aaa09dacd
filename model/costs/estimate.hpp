// Analytical estimates of a Program's makespan: a closed form and lower bounds, without simulation. MODELS sections 2
// and 12.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/base/quantity.hpp"
#include "model/costs/block_price.hpp"
#include "model/costs/stage_clusters.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"

namespace moeplan {

struct Estimate {
  /// The sum over blocks of the longest chain of operations along streams and dependencies. Computations are priced by
  /// the compute model. A communication takes its start-up time plus the larger of the most loaded link's time for the
  /// traffic of all its groups at once ([FasterMoE] eq. (2)) and the time of its most loaded rank under its bandwidth
  /// cap. Exact if only one collective is on the network at a time, all ranks are equal and the links are evenly used.
  /// A pipeline is composed of such segments (compose_stages.hpp). Background streams run concurrently, from the block
  /// that gives them work; what is left of it at the end counts.
  Seconds closed_form;

  /// Three lower bounds on the makespan, and their maximum.
  Seconds critical_path;  // of the slowest rank (pipeline: one rank per stage), each operation alone on an idle cluster
  Seconds compute;        // of the busiest stream of a GPU, summed over its ranks; streams compute concurrently
  Seconds links;          // of the busiest link: its traffic / its bandwidth
  Seconds lower_bound;
  std::string bound_by;  // "critical path", "compute", or the name of the busiest link
};

[[nodiscard]] Estimate estimate(const Program& program, const Cluster& cluster);
/// The same; `machines` caches the sub-clusters for further calls on this cluster.
[[nodiscard]] Estimate estimate(const Program& program, StageClusters& machines);

/// The estimate of a pipeline.
struct PipelineEstimate : Estimate {
  /// The paths of which `critical_path` is the longest, by the ranks' position in their stages. Among them is the
  /// first.
  std::map<std::size_t, Seconds> paths;
};

/// Estimates of pipelines that have their blocks in common: each block is priced once.
class PipelineEstimates {
 public:
  /// `program`, of several stages, and `machines` must outlive the object.
  PipelineEstimates(const Program& program, StageClusters& machines, PricedRanks ranks = PricedRanks::All);
  ~PipelineEstimates();

  /// estimate() of the Program with these sequences of its blocks, one a stage.
  [[nodiscard]] PipelineEstimate of(const std::vector<Sequence>& stages);
  /// Prices of the Program's blocks on the ranks of a stage.
  [[nodiscard]] BlockPricer& prices(std::size_t stage);

 private:
  class State;
  std::unique_ptr<State> state_;
};

/// A lower bound on the makespan that is cheap if ranks differ: the longest chain of rank 0 of each stage, each
/// operation timed alone on an idle cluster, or its busiest stream. Never above estimate()'s lower bound, up to
/// rounding.
[[nodiscard]] Seconds bound_by_first_rank(const Program& program, StageClusters& machines);

/// Whether estimate() has to evaluate every rank, because no small set of representatives can be proved.
[[nodiscard]] bool has_asymmetric_ranks(const Program& program, StageClusters& machines);

}  // namespace moeplan
