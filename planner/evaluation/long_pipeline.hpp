// Iterations of pipelines with many microbatches, priced by shorter ones: once the pipeline is full, each microbatch
// is as much work as the one before.
#pragma once

#include <cstdint>
#include <functional>

#include "model/costs/block_price.hpp"
#include "model/costs/estimate.hpp"
#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// One iteration of a candidate; what it refers to outlives it. infeasibility() must be none. A pipeline is long where
/// it has more than four microbatches a stage.
class Iteration {
 public:
  /// `change` is made to every Program of it.
  Iteration(const ModelSpec& model, const Workload& workload, const Candidate& candidate, std::int64_t ranks_per_node,
            std::function<Program(Program)> change = {});

  /// With at most four microbatches a stage: it needs as much memory as the whole.
  [[nodiscard]] const Program& filled() const { return filled_; }

  /// estimate() of the whole iteration. Of a long pipeline, `closed_form`, `compute` and `links` go on in a line from
  /// three and four microbatches a stage: the first a few percent off at worst where stages differ, the others exact
  /// or, where something else is the busiest later, below. `critical_path` is a lower bound still: that of four
  /// microbatches a stage and, for each further one, the chain of the stage with the least to do (a longest path goes
  /// on over the same stages one microbatch later), or the whole chain of one stage.
  [[nodiscard]] Estimate estimated(StageClusters& machines) const;

  /// bound_by_first_rank() of the whole iteration, or of a long pipeline a lower bound in the same way.
  [[nodiscard]] Seconds bounded_by_first_rank(StageClusters& machines) const;

 private:
  [[nodiscard]] bool is_long() const { return candidate_.degrees.pp > 1 && microbatches_ > 4 * candidate_.degrees.pp; }
  [[nodiscard]] Program with_microbatches(std::int64_t count) const;
  /// Microbatches beyond four a stage, in units of one a stage.
  [[nodiscard]] double steps_beyond() const;
  /// The critical path's bound from that of filled(), by the chains of its stages and of `three` microbatches a stage.
  [[nodiscard]] Seconds longer_path(Seconds of_filled, const Program& three, StageClusters& machines,
                                    PricedRanks ranks) const;

  const ModelSpec& model_;
  const Workload& workload_;
  const Candidate& candidate_;
  std::int64_t ranks_per_node_;
  std::int64_t microbatches_;
  std::function<Program(Program)> change_;
  Program filled_;
};

}  // namespace moeplan::planner
