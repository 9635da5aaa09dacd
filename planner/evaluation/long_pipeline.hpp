// Estimates for iterations with many microbatches, extrapolated from shorter ones: once the pipeline is full, every
// microbatch adds the same work.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/costs/estimate.hpp"
#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// One iteration of a candidate. The arguments must outlive it; infeasibility() must be none. A pipeline is long if it
/// has more than four microbatches per stage.
class Iteration {
 public:
  /// `change` is applied to the Program.
  Iteration(const ModelSpec& model, const Workload& workload, const Candidate& candidate, std::int64_t ranks_per_node,
            const std::function<Program(Program)>& change = {});

  /// The Program with at most four microbatches per stage. It needs as much memory as the whole iteration.
  [[nodiscard]] const Program& filled() const { return filled_; }

  /// estimate() of the whole iteration. For a long pipeline, `closed_form`, `compute` and `links` are extrapolated
  /// linearly from three and four microbatches per stage. `closed_form` is off by a few percent at most, where stages
  /// differ; the other two are exact, or too low where another resource becomes the busiest later. `critical_path`
  /// remains a lower bound: the path of four microbatches per stage plus, for each further one, the chain of its ranks
  /// on the stage with the least work (a longest path continues over the same stages one microbatch later), or the
  /// whole chain of one stage if that is longer.
  [[nodiscard]] Estimate estimated(StageClusters& machines) const;

  /// bound_by_first_rank() of the whole iteration; for a long pipeline a lower bound obtained in the same manner.
  [[nodiscard]] Seconds bounded_by_first_rank(StageClusters& machines) const;

 private:
  [[nodiscard]] bool is_long() const { return candidate_.degrees.pp > 1 && microbatches_ > 4 * candidate_.degrees.pp; }
  /// Microbatches beyond four per stage, divided by the number of stages.
  [[nodiscard]] double steps_beyond() const;
  /// The critical-path bound of the whole iteration from the paths of filled(), using the chains of its stages in
  /// filled() and with three microbatches per stage.
  [[nodiscard]] Seconds longer_path(const PipelineEstimate& of_filled, PipelineEstimates& blocks) const;

  const Candidate& candidate_;
  std::int64_t microbatches_;
  Program filled_;
  std::vector<Sequence> three_;  // the stages with three microbatches each, of a long pipeline
};

}  // namespace moeplan::planner
