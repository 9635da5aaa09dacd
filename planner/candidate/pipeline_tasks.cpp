#include "planner/candidate/pipeline_tasks.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "model/base/to_index.hpp"

namespace moeplan::planner {

std::int64_t part_of(PipelineShape shape, std::int64_t stages, std::int64_t stage, std::int64_t own) {
  if (shape == PipelineShape::V && own == 1) return 2 * stages - 1 - stage;
  return own * stages + stage;
}

std::vector<std::size_t> parts_of(const Candidate& candidate, std::int64_t stage) {
  std::vector<std::size_t> out;
  for (std::int64_t own = 0; own < candidate.virtual_stages; ++own)
    out.push_back(to_index(part_of(candidate.pipeline, candidate.degrees.pp, stage, own)));
  return out;
}

std::int64_t stage_of(PipelineShape shape, std::int64_t stages, std::int64_t part) {
  if (shape == PipelineShape::V && part >= stages) return 2 * stages - 1 - part;
  return part % stages;
}

namespace {

std::vector<PipelineTask> interleaved_tasks(std::int64_t stages, std::int64_t stage, std::int64_t virtual_stages,
                                            std::int64_t microbatches, bool train) {
  const std::int64_t total = microbatches * virtual_stages;
  // Groups of `stages` microbatches pass through part 0, then part 1 ...; backward through the last part first.
  const auto task = [&](bool forward, std::int64_t k) {
    if (virtual_stages == 1) return PipelineTask{forward, 0, k};
    const std::int64_t part = k % (stages * virtual_stages) / stages;
    return PipelineTask{forward, forward ? part : virtual_stages - 1 - part,
                        k / (stages * virtual_stages) * stages + k % stages};
  };
  std::int64_t ahead = train ? stages - stage - 1 : total;
  if (train && virtual_stages > 1) ahead = 2 * (stages - stage - 1) + (virtual_stages - 1) * stages;
  ahead = std::min(ahead, total);
  std::vector<PipelineTask> tasks;
  for (std::int64_t k = 0; k < ahead; ++k) tasks.push_back(task(true, k));
  if (!train) return tasks;
  for (std::int64_t k = 0; k < total; ++k) {
    if (ahead + k < total) {
      if (!tasks.empty()) tasks.back().goes_with_next = !tasks.back().forward;
      tasks.push_back(task(true, ahead + k));
    }
    tasks.push_back(task(false, k));
  }
  return tasks;
}

/// Writes the tasks of a stage of a V, in DualPipeV's steps.
class VTasks {
 public:
  std::vector<PipelineTask> of(std::int64_t stages, std::int64_t stage, std::int64_t microbatches) {
    const std::int64_t below = stages - stage - 1, in_turn = stage + 1, main = microbatches - stages - below;
    assert(main > 0 && "two microbatches a stage");
    for (std::int64_t i = 0; i < 2 * below; ++i) forward(0);
    for (std::int64_t i = 0; i < in_turn; ++i) {
      forward(0);
      forward(1);
    }
    for (std::int64_t i = 0; i < below; ++i) {
      backward(1);
      forward(1);
    }
    for (std::int64_t i = 0; i < main; ++i) {
      if (i == 0 && below == 0) {  // the last stage feeds itself: its first microbatches do not go together
        forward(0);
        backward(1);
      } else {
        together(1, 0);
      }
      together(0, 1);
    }
    for (std::int64_t i = 0; i < below; ++i) {
      backward(1);
      together(0, 1);
    }
    for (std::int64_t i = 0; i < in_turn; ++i) {
      backward(1);
      backward(0);
    }
    for (std::int64_t i = 0; i < below; ++i) backward(0);
    return std::move(tasks_);
  }

 private:
  void forward(std::int64_t part) { tasks_.push_back({true, part, forward_[static_cast<std::size_t>(part)]++}); }
  void backward(std::int64_t part) { tasks_.push_back({false, part, backward_[static_cast<std::size_t>(part)]++}); }
  void together(std::int64_t back, std::int64_t on) {
    backward(back);
    tasks_.back().goes_with_next = true;
    forward(on);
  }

  std::vector<PipelineTask> tasks_;
  std::array<std::int64_t, 2> forward_{}, backward_{};  // microbatches so far, by part
};

}  // namespace

std::vector<PipelineTask> pipeline_tasks(const Candidate& candidate, std::int64_t stage, std::int64_t microbatches,
                                         bool train) {
  const std::int64_t stages = candidate.degrees.pp;
  if (candidate.pipeline == PipelineShape::V) return VTasks().of(stages, stage, microbatches);
  return interleaved_tasks(stages, stage, candidate.virtual_stages, microbatches, train);
}

}  // namespace moeplan::planner
