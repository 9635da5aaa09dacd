#include "cuda_runtime/device/device_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <thread>

namespace moeplan::runtime {

namespace {

using Clock = std::chrono::steady_clock;

std::size_t index_of(Stream stream) { return static_cast<std::size_t>(stream); }

}  // namespace

DeviceExecution::DeviceExecution(Device& device, DeviceTransport& transport, std::vector<RankId> ranks,
                                 DeviceOptions options)
    : device_(device),
      transport_(transport),
      options_(std::move(options)),
      pool_(device, options_.slab),
      handles_(device),
      origin_(handles_.make_stream()),
      begin_(handles_.make_event(true)),
      fork_(handles_.make_event(false)),
      over_(handles_.make_event(false)) {
  for (const RankId id : ranks) {
    ranks_.push_back({id});
    const std::int32_t none = 0;
    // const_cast: the pool returns const pointers, but its memory is writable.
    ranks_.back().failure = const_cast<std::int32_t*>(pool_.copy_of(std::span(&none, 1)));
  }
}

/// Waits for the device before memory in use is released.
DeviceExecution::~DeviceExecution() {
  if (!is_running_) return;
  give_up();
  const auto deadline = Clock::now() + std::chrono::duration<double>(std::min(options_.time_out, Seconds(5)).value());
  try {
    while (!device_.is_idle() && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } catch (const std::exception&) {
    // The device has failed: nothing is executing any more.
  }
}

void DeviceExecution::allocate(std::size_t rank, std::span<const BufferShape> buffers) {
  for (const BufferShape& shape : buffers) ranks_[rank].buffers.emplace_back(shape, device_, pool_);
}

void DeviceExecution::prepare(std::size_t rank, const Work& work, const std::string& name) {
  Rank& r = ranks_[rank];
  const DeviceContext context{r.buffers, pool_, options_.codecs, r.failure};
  r.operations.push_back(device_operation(work, name, context));
  r.events.push_back({handles_.make_event(true), handles_.make_event(true), handles_.make_event(false)});
}

void DeviceExecution::execute() {
  make_ready();
  transport_.meet(options_.time_out);
  is_running_ = true;
  for (Rank& r : ranks_) {
    for (DeviceBuffer& buffer : r.buffers) buffer.fill_zeros(origin_);
  }
  if (cold_ != nullptr) device_.clear(origin_, cold_, options_.cold_bytes);
  transport_.align(origin_);
  if (!options_.captures || !has_run_) {
    issue_all();
  } else {
    if (!graph_) {
      device_.begin_capture(origin_);
      issue_all();
      graph_ = handles_.end_capture(origin_);
    }
    device_.launch(origin_, *graph_);
  }
  device_.record(over_, origin_);
  wait_for_end();
  is_running_ = false;
  has_run_ = true;
  collect();
}

std::vector<DeviceExecution::Rank*> DeviceExecution::busy_ranks() {
  std::vector<Rank*> out;
  for (Rank& r : ranks_) {
    if (!r.steps.empty()) out.push_back(&r);
  }
  return out;
}

/// Creates and prepares streams, communicators and buffers for the steps.
void DeviceExecution::make_ready() {
  const std::vector<Rank*> busy = busy_ranks();
  const std::vector<DeviceStep> steps = busy.empty() ? std::vector<DeviceStep>() : busy.front()->steps;
  for (Rank& r : ranks_) {
    assert((r.steps.empty() || r.steps == steps) && "all ranks that do something take the same steps");
    for (DeviceBuffer& buffer : r.buffers) buffer.give();
    const std::int32_t none = 0;
    device_.copy_in(reinterpret_cast<std::byte*>(r.failure), std::as_bytes(std::span(&none, 1)));
  }
  if (options_.cold_bytes > 0 && cold_ == nullptr) cold_ = pool_.allocate(options_.cold_bytes);
  if (steps == ready_for_) return;
  for (Rank* r : busy) {
    for (const DeviceStep& step : steps) {
      auto& stream = r->streams[index_of(step.stream)];
      if (stream) continue;
      stream = handles_.make_stream();
      joins_.push_back(handles_.make_event(false));
    }
  }
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (!busy.front()->operations[steps[s].operation].transfer) continue;
    transport_.prepare(steps[s].operation, steps[s].stream, parts(s));
  }
  ready_for_ = steps;
  has_run_ = false;
  graph_.reset();
  handles_.release_graphs();
}

void DeviceExecution::issue_all() {
  device_.record(begin_, origin_);
  device_.record(fork_, origin_);
  for (Rank& r : ranks_) {
    for (const auto& stream : r.streams) {
      if (stream) device_.wait(*stream, fork_);
    }
  }
  for (std::size_t s = 0; s < ready_for_.size(); ++s) issue(s);
  std::size_t join = 0;
  for (Rank& r : ranks_) {
    for (const auto& stream : r.streams) {
      if (!stream) continue;
      device_.record(joins_[join], *stream);
      device_.wait(origin_, joins_[join++]);
    }
  }
}

/// Issues one step of all ranks.
void DeviceExecution::issue(std::size_t s) {
  const DeviceStep& step = ready_for_[s];
  const std::vector<Rank*> ranks = busy_ranks();
  for (Rank* r : ranks) {
    const DeviceStream stream = *r->streams[index_of(step.stream)];
    for (const std::size_t a : step.after) device_.wait(stream, r->events[a].ended);
    device_.record(r->events[step.operation].start, stream);
    runtime::issue(device_, stream, r->operations[step.operation].before);
  }
  if (ranks.front()->operations[step.operation].transfer) transport_.transfer(step.operation, parts(s));
  for (Rank* r : ranks) {
    const DeviceStream stream = *r->streams[index_of(step.stream)];
    runtime::issue(device_, stream, r->operations[step.operation].after);
    device_.record(r->events[step.operation].end, stream);
    device_.record(r->events[step.operation].ended, stream);
  }
}

std::vector<DevicePart> DeviceExecution::parts(std::size_t s) {
  std::vector<DevicePart> out;
  for (Rank* r : busy_ranks()) {
    const DeviceStep& step = r->steps[s];
    out.push_back({r->id, *r->streams[index_of(step.stream)], &*r->operations[step.operation].transfer});
  }
  return out;
}

void DeviceExecution::wait_for_end() {
  constexpr std::chrono::microseconds kPause(50);
  const auto begin = Clock::now();
  while (!device_.is_over(over_)) {
    transport_.check();
    const std::chrono::duration<double> waited = Clock::now() - begin;
    if (waited.count() > options_.time_out.value()) {
      const std::string late = late_operation();
      give_up();
      throw ExecutionError(
          fmt::format("rank {}: {}: not over within {} s", ranks_.front().id.value(), late, options_.time_out.value()));
    }
    std::this_thread::sleep_for(kPause);
  }
}

/// Releases graphs first: NCCL destroys a communicator only after all graphs that use it.
void DeviceExecution::give_up() noexcept {
  graph_.reset();
  handles_.release_graphs();
  transport_.abort();
}

/// The name of the first operation that has not ended.
std::string DeviceExecution::late_operation() {
  for (const DeviceStep& step : ready_for_) {
    for (Rank* r : busy_ranks()) {
      if (!device_.is_over(r->events[step.operation].end)) return r->operations[step.operation].name;
    }
  }
  return "the run";
}

void DeviceExecution::collect() {
  for (Rank& r : ranks_) {
    std::int32_t failure = 0;
    device_.copy_out(std::as_writable_bytes(std::span(&failure, 1)), reinterpret_cast<const std::byte*>(r.failure));
    if (failure != 0) {
      throw ExecutionError(
          fmt::format("rank {}: a token was sent to an expert that the gate did not choose", r.id.value()));
    }
    r.times.assign(r.operations.size(), OperationTime{Seconds(0), Seconds(0)});
    for (const DeviceStep& step : r.steps) {
      const Events& e = r.events[step.operation];
      r.times[step.operation] = {device_.between(begin_, e.start), device_.between(begin_, e.end)};
    }
  }
}

}  // namespace moeplan::runtime
