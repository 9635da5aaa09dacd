#include "planner/layer/chunk_order.hpp"

namespace moeplan::planner {

std::vector<ChunkStep> opt_sche(std::int64_t chunks) {
  std::vector<ChunkStep> out;
  const auto for_each_chunk = [&](auto... tasks) {
    for (std::int64_t c = 0; c < chunks; ++c) (out.push_back({c, tasks}), ...);
  };
  for_each_chunk(ChunkTask::Encode);
  for_each_chunk(ChunkTask::Dispatch);
  for_each_chunk(ChunkTask::Decode, ChunkTask::Expert, ChunkTask::EncodeCombine);
  for_each_chunk(ChunkTask::Combine);
  for_each_chunk(ChunkTask::DecodeCombine);
  return out;
}

std::vector<ChunkStep> opt_sche_first_chunk_last(std::int64_t chunks) {
  std::vector<ChunkStep> out = opt_sche(chunks);
  for (ChunkStep& step : out) {
    const bool is_dispatched = step.task == ChunkTask::Encode || step.task == ChunkTask::Dispatch;
    if (!is_dispatched) step.chunk = (step.chunk + 1) % chunks;
  }
  return out;
}

std::vector<ChunkStep> task_by_task(std::int64_t chunks) {
  std::vector<ChunkStep> out;
  for (std::size_t task = 0; task < kChunkTasks; ++task) {
    for (std::int64_t c = 0; c < chunks; ++c) out.push_back({c, static_cast<ChunkTask>(task)});
  }
  return out;
}

std::vector<std::int32_t> opt_sche_order(std::int64_t chunks) {
  std::vector<std::int32_t> out;
  for (const ChunkStep& step : opt_sche(chunks)) out.push_back(chunk_task(step.chunk, step.task));
  return out;
}

OrderProblem opt_sche_problem(std::int64_t chunks, const std::array<SimTime, kChunkTasks>& durations) {
  OrderProblem problem;
  for (std::int64_t c = 0; c < chunks; ++c) {
    for (std::size_t k = 0; k < kChunkTasks; ++k) {
      OrderTask task{durations[k], communicates(static_cast<ChunkTask>(k)) ? 1 : 0, {}};
      if (k > 0) task.after.push_back(static_cast<std::int32_t>(problem.size()) - 1);
      problem.push_back(std::move(task));
    }
  }
  return problem;
}

}  // namespace moeplan::planner
