#include "sim/program/rank_streams.hpp"

#include <algorithm>
#include <stdexcept>

namespace moeplan::sim {

BlockOrder::BlockOrder(const std::vector<Operation>& operations)
    : operations_(operations), first_follower_(operations.size() + 1, 0) {
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    const auto index = static_cast<std::int32_t>(i);
    const bool is_awaited = !is_background(operation.stream);
    dependencies_.push_back(static_cast<std::int32_t>(operation.after.size()));
    for (const std::int32_t before : operation.after) ++first_follower_[static_cast<std::size_t>(before) + 1];
    if (is_awaited) streams_[static_cast<std::size_t>(operation.stream)].push_back(index);
    if (!is_awaited || std::holds_alternative<Wait>(operation.work)) background_and_waits_.push_back(index);
    awaited_ += is_awaited ? 1 : 0;
  }
  for (std::size_t i = 1; i < first_follower_.size(); ++i) first_follower_[i] += first_follower_[i - 1];
  followers_.resize(first_follower_.back());
  std::vector<std::size_t> next = first_follower_;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    for (const std::int32_t before : operations[i].after)
      followers_[next[static_cast<std::size_t>(before)]++] = static_cast<std::int32_t>(i);
  }
}

std::span<const std::int32_t> BlockOrder::followers(std::int32_t operation) const {
  const auto i = static_cast<std::size_t>(operation);
  return std::span(followers_).subspan(first_follower_[i], first_follower_[i + 1] - first_follower_[i]);
}

void RankStreams::begin_block(BlockId block, const BlockOrder& order) {
  block_ = block;
  order_ = &order;
  ++block_number_;
  open_operations_ = order.awaited();
  open_dependencies_ = order.dependencies();
  start_.assign(open_dependencies_.size(), SimTime{});
  streams_.fill({});
  if (order.background_and_waits().empty()) return;
  listed_before_.resize(open_dependencies_.size());
  for (const std::int32_t index : order.background_and_waits()) {
    const auto i = static_cast<std::size_t>(index);
    const Operation& operation = order.operations()[i];
    if (const Wait* wait = std::get_if<Wait>(&operation.work))
      listed_before_[i] = background_[static_cast<std::size_t>(wait->stream)].listed;
    if (!is_background(operation.stream)) continue;
    BackgroundStream& stream = background_[static_cast<std::size_t>(operation.stream)];
    stream.queue.push_back({{block_, index, block_number_}, open_dependencies_[i], {}});
    ++stream.listed;
  }
}

std::optional<std::int32_t> RankStreams::start_next(std::size_t stream, SimTime now) {
  BlockStream& s = streams_[stream];
  const std::vector<std::int32_t>& operations = order_->of_stream(stream);
  if (s.is_busy || s.head == operations.size()) return std::nullopt;
  const std::int32_t operation = operations[s.head];
  if (open_dependencies_[static_cast<std::size_t>(operation)] > 0) return std::nullopt;
  s.is_busy = true;
  start_[static_cast<std::size_t>(operation)] = now;
  return operation;
}

void RankStreams::end(std::int32_t operation) {
  const std::vector<Operation>& operations = order_->operations();
  BlockStream& stream = streams_[static_cast<std::size_t>(operations[static_cast<std::size_t>(operation)].stream)];
  stream.is_busy = false;
  ++stream.head;
  for (const std::int32_t follower : order_->followers(operation)) {
    const auto i = static_cast<std::size_t>(follower);
    --open_dependencies(operations[i], i);
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
