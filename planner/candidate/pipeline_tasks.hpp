// Which parts of the model the stages of a pipeline hold, and in which order a stage takes its microbatches through
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// The part of the model that a stage holds as its `own`-th, of 0 .. virtual_stages - 1; parts are numbered in the
/// order of a forward pass.
[[nodiscard]] std::int64_t part_of(PipelineShape shape, std::int64_t stages, std::int64_t stage, std::int64_t own);
/// All parts that a candidate's stage holds, in that order: indices of stage_parts().
[[nodiscard]] std::vector<std::size_t> parts_of(const Candidate& candidate, std::int64_t stage);
/// The stage that holds a part.
[[nodiscard]] std::int64_t stage_of(PipelineShape shape, std::int64_t stages, std::int64_t part);

/// A forward or backward pass of one microbatch through one part of a stage.
struct PipelineTask {
  bool forward;
  std::int64_t part;  // within this stage, 0 .. virtual_stages - 1
  std::int64_t microbatch;
  /// A backward pass that may run concurrently with the next task, a forward pass of another microbatch.
  bool goes_with_next = false;
  bool operator==(const PipelineTask&) const = default;
};

/// The task list of a stage.
///
/// Interleaved: in training 1F1B ([PipeDream-Flush], D. Narayanan et al., "Efficient large-scale language model
/// training on GPU clusters", SC'21, sec. 2.2), with virtual_stages > 1 interleaved as in Megatron-LM; the number of
/// microbatches is then a multiple of the number of stages. Without training: all forward passes in the same order.
///
/// V: DualPipeV's order (deepseek-ai/DualPipe, dualpipe/dualpipev.py at 3da1bbe) with whole backward passes: weight
/// gradients do not fill the bubble. Training with at least two microbatches a stage.
[[nodiscard]] std::vector<PipelineTask> pipeline_tasks(const Candidate& candidate, std::int64_t stage,
                                                       std::int64_t microbatches, bool train);

}  // namespace moeplan::planner
