#include "sim/program/rank_streams.hpp"

#include <algorithm>
#include <stdexcept>

namespace moeplan::sim {

void RankStreams::begin_block(BlockId block, const std::vector<Operation>& operations) {
  block_ = block;
  ++block_number_;
  open_operations_ = 0;
  open_dependencies_.assign(operations.size(), 0);
  listed_before_.assign(operations.size(), 0);
  start_.assign(operations.size(), SimTime{});
  for (BlockStream& stream : streams_) {
    stream.operations.clear();
    stream.head = 0;
    stream.is_busy = false;
  }
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    const auto stream = static_cast<std::size_t>(operations[i].stream);
    const auto dependencies = static_cast<std::int32_t>(operations[i].after.size());
    if (const Wait* wait = std::get_if<Wait>(&operations[i].work)) {
      listed_before_[i] = background_[static_cast<std::size_t>(wait->stream)].listed;
    }
    if (is_background(operations[i].stream)) {
      background_[stream].queue.push_back({{block_, index, block_number_}, dependencies, {}});
      ++background_[stream].listed;
      continue;
    }
    ++open_operations_;
    open_dependencies_[i] = dependencies;
    streams_[stream].operations.push_back(index);
  }
}

std::optional<std::int32_t> RankStreams::start_next(std::size_t stream, SimTime now) {
  BlockStream& s = streams_[stream];
  if (s.is_busy || s.head == s.operations.size()) return std::nullopt;
  const std::int32_t operation = s.operations[s.head];
  if (open_dependencies_[static_cast<std::size_t>(operation)] > 0) return std::nullopt;
  s.is_busy = true;
  start_[static_cast<std::size_t>(operation)] = now;
  return operation;
}

void RankStreams::end(const std::vector<Operation>& operations, std::int32_t operation) {
  const auto i = static_cast<std::size_t>(operation);
  BlockStream& stream = streams_[static_cast<std::size_t>(operations[i].stream)];
  stream.is_busy = false;
  ++stream.head;
  for (std::size_t j = i + 1; j < operations.size(); ++j) {
    for (const std::int32_t a : operations[j].after) {
      if (a == operation) --open_dependencies(operations[j], j);
    }
  }
  --open_operations_;
}

std::int32_t& RankStreams::open_dependencies(const Operation& operation, std::size_t index) {
  if (!is_background(operation.stream)) return open_dependencies_[index];
  for (Queued& q : background_[static_cast<std::size_t>(operation.stream)].queue) {
    if (q.instance.block_number == block_number_ && q.instance.operation == static_cast<std::int32_t>(index)) {
      return q.open_dependencies;
    }
  }
  throw std::logic_error("an operation of a background stream ended before one that it comes after");
}

std::optional<OperationInstance> RankStreams::start_next_background(std::size_t stream, SimTime now) {
  BackgroundStream& b = background_[stream];
  if (b.is_busy || b.queue.empty() || b.queue.front().open_dependencies > 0) return std::nullopt;
  b.is_busy = true;
  b.queue.front().start = now;
  return b.queue.front().instance;
}

RankStreams::Started RankStreams::end_background(std::size_t stream) {
  BackgroundStream& b = background_[stream];
  const Started ended{b.queue.front().instance, b.queue.front().start};
  b.queue.pop_front();
  b.is_busy = false;
  ++b.ended;
  return ended;
}

bool RankStreams::background_is_idle() const {
  return std::all_of(background_.begin(), background_.end(), [](const BackgroundStream& b) { return b.queue.empty(); });
}

void RankStreams::begin_wait(std::int32_t operation, const Wait& wait) {
  const auto stream = static_cast<std::size_t>(wait.stream);
  waits_.push_back({operation, stream, listed_before_[static_cast<std::size_t>(operation)]});
}

std::optional<std::int32_t> RankStreams::take_ended_wait() {
  const auto it = std::find_if(waits_.begin(), waits_.end(),
                               [&](const Waiting& w) { return background_[w.stream].ended >= w.ends; });
  if (it == waits_.end()) return std::nullopt;
  const std::int32_t operation = it->operation;
  waits_.erase(it);
  return operation;
}

}  // namespace moeplan::sim
