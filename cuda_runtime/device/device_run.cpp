#include "cuda_runtime/device/device_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <thread>

namespace moeplan::runtime {

namespace {

using Clock = std::chrono::steady_clock;

/// assumed: longer than any host takes to enqueue an execution, unless the device's queues are full.
constexpr Seconds kLongestHold(0.2);

std::size_t index_of(Stream stream) { return static_cast<std::size_t>(stream); }

/// Whether communication runs on it, whose few blocks shall not wait behind the many of a product.
bool communicates(Stream stream) {
  return stream == Stream::Intra || stream == Stream::Inter || stream == Stream::Replicas || stream == Stream::Pipeline;
}

/// Holds a stream back until the end of this object's life, so that what is enqueued meanwhile starts together.
class Hold {
 public:
  Hold(Device& device, DeviceStream stream) : device_(device) { device_.hold(stream, kLongestHold); }
  ~Hold() { device_.resume(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  Device& device_;
};

}  // namespace

DeviceExecution::DeviceExecution(Device& device, DeviceTransport& transport, std::vector<RankId> ranks,
                                 DeviceOptions options)
    : device_(device),
      transport_(transport),
      options_(std::move(options)),
      pool_(device, options_.slab),
      handles_(device),
      origin_(handles_.make_stream()),
      begin_{handles_.make_event(true), handles_.make_event(false)},
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
  std::vector<DeviceBuffer>& all = ranks_[rank].buffers;
  for (const BufferShape& shape : buffers) all.emplace_back(shape, device_, pool_, all);
}

template <class Look, class Late>
void DeviceExecution::wait(Look look, Late late) {
  constexpr std::chrono::microseconds kPause(50);
  const auto begin = Clock::now();
  for (int i = 0; !device_.is_over(over_); ++i) {
    look(i);
    const std::chrono::duration<double> waited = Clock::now() - begin;
    if (waited.count() > options_.time_out.value()) {
      const std::string what = late();
      throw ExecutionError(
          fmt::format("rank {}: {} within {} s", ranks_.front().id.value(), what, options_.time_out.value()));
    }
    std::this_thread::sleep_for(kPause);
  }
}

void DeviceExecution::make(std::size_t rank, BufferId id, const MadeElements& elements) {
  constexpr std::size_t kAtOnce = std::size_t{1} << 16U;
  using kernels::MadeRun;
  if (made_ == nullptr) made_ = pool_.allocate(kAtOnce * sizeof(MadeRun));
  const std::span<const MadeRun> runs(elements.runs);
  for (std::size_t first = 0; first < runs.size(); first += kAtOnce) {
    const auto some = runs.subspan(first, std::min(kAtOnce, runs.size() - first));
    device_.copy_in(made_, std::as_bytes(some));
    is_running_ = true;
    const kernels::View view = buffer(rank, id).writable(origin_);
    device_.launch(origin_, elements.call(view, reinterpret_cast<const MadeRun*>(made_), std::ssize(some)));
    device_.record(over_, origin_);
    wait([](int) {}, [] { return std::string("values were not made"); });
    is_running_ = false;
  }
}

void DeviceExecution::prepare(std::size_t rank, const Work& work, const std::string& name) {
  Rank& r = ranks_[rank];
  const DeviceContext context{r.buffers, pool_, options_.codecs, r.failure};
  r.operations.push_back(device_operation(work, name, context));
  r.events.push_back({handles_.make_event(true), {handles_.make_event(true), handles_.make_event(false)}});
}

void DeviceExecution::execute() {
  make_ready();
  if (options_.captures && has_run_ && !graph_) capture();
  transport_.meet(options_.time_out);
  is_running_ = true;
  for (Rank& r : ranks_) {
    for (DeviceBuffer& buffer : r.buffers) buffer.fill_zeros(origin_);
  }
  if (cold_ != nullptr) device_.read(origin_, cold_, options_.cold_bytes);
  const bool is_held = has_run_;  // a first execution loads kernels, for which libraries may wait for the device
  start();
  wait_for_end();
  is_running_ = false;
  has_run_ = true;
  collect();
  // The queues are shorter than the execution: from now on it is one command.
  if (is_held && device_.has_expired()) options_.captures = true;
}

/// Enqueues everything before the device starts with any of it.
void DeviceExecution::start() {
  std::optional<Hold> hold;
  if (has_run_) hold.emplace(device_, origin_);
  transport_.align(origin_);
  graph_ ? device_.launch(origin_, *graph_) : issue_all();
  device_.record(over_, origin_);
}

void DeviceExecution::capture() {
  device_.begin_capture(origin_);
  is_capturing_ = true;
  try {
    issue_all();
    graph_ = handles_.end_capture(origin_);
  } catch (...) {
    is_capturing_ = false;
    device_.abandon_capture(origin_);
    throw;
  }
  is_capturing_ = false;
}

std::vector<DeviceExecution::Rank*> DeviceExecution::busy_ranks() {
  std::vector<Rank*> out;
  for (Rank& r : ranks_) {
    if (!r.steps.empty()) out.push_back(&r);
  }
  return out;
}

void DeviceExecution::upload() {
  for (Rank& r : ranks_) {
    for (DeviceBuffer& buffer : r.buffers) buffer.give();
    const std::int32_t none = 0;
    device_.copy_in(reinterpret_cast<std::byte*>(r.failure), std::as_bytes(std::span(&none, 1)));
  }
}

/// Creates and prepares streams, communicators and buffers for the steps.
void DeviceExecution::make_ready() {
  const std::vector<Rank*> busy = busy_ranks();
  const std::vector<DeviceStep> steps = busy.empty() ? std::vector<DeviceStep>() : busy.front()->steps;
  assert(
      std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& r) { return r.steps.empty() || r.steps == steps; }) &&
      "all ranks that do something take the same steps");
  upload();
  if (options_.cold_bytes > 0 && cold_ == nullptr) cold_ = pool_.allocate(options_.cold_bytes);
  if (steps == ready_for_) return;
  for (Rank* r : busy) {
    for (const DeviceStep& step : steps) {
      auto& stream = r->streams[index_of(step.stream)];
      if (!stream)
        stream = handles_.make_stream(static_cast<std::size_t>(r - ranks_.data()), communicates(step.stream));
    }
  }
  for (std::size_t s = 0; s < steps.size(); ++s) {
    if (!busy.front()->operations[steps[s].operation].transfer) continue;
    transport_.prepare(steps[s].operation, steps[s].stream, parts(s));
  }
  ready_for_ = steps;
  orders_ = step_orders(ready_for_);
  has_run_ = false;
  graph_.reset();
  handles_.release_graphs();
}

void DeviceExecution::record(const Mark& mark, DeviceStream stream, bool is_awaited) {
  device_.record(mark.timed, stream);
  if (is_capturing_ && is_awaited) device_.record(mark.plain, stream);
}

void DeviceExecution::wait(DeviceStream stream, const Mark& mark) {
  device_.wait(stream, is_capturing_ ? mark.plain : mark.timed);
}

DeviceStream DeviceExecution::stream_of(const Rank& rank, std::size_t s) const {
  return *rank.streams[index_of(ready_for_[s].stream)];
}

DeviceEvent DeviceExecution::start_of(const Rank& rank, std::size_t s) const {
  if (!orders_[s].waits.empty()) return rank.events[ready_for_[s].operation].start;
  const auto before = orders_[s].previous;
  return before ? rank.events[ready_for_[*before].operation].end.timed : begin_.timed;
}

void DeviceExecution::issue_all() {
  record(begin_, origin_, true);
  const std::vector<Rank*> ranks = busy_ranks();
  for (std::size_t s = 0; s < ready_for_.size(); ++s) {
    if (orders_[s].previous) continue;
    for (const Rank* r : ranks) wait(stream_of(*r, s), begin_);
  }
  for (std::size_t s = 0; s < ready_for_.size(); ++s) issue(s);
  std::array<std::optional<std::size_t>, kStreamNames.size()> last{};
  for (std::size_t s = 0; s < ready_for_.size(); ++s) last[index_of(ready_for_[s].stream)] = s;
  for (const Rank* r : ranks) {
    for (const auto& s : last) {
      if (s) wait(origin_, r->events[ready_for_[*s].operation].end);
    }
  }
}

/// Issues one step of all ranks.
void DeviceExecution::issue(std::size_t s) {
  const std::size_t operation = ready_for_[s].operation;
  const std::vector<Rank*> ranks = busy_ranks();
  for (const Rank* r : ranks) {
    const DeviceStream stream = stream_of(*r, s);
    for (const std::size_t a : orders_[s].waits) wait(stream, r->events[ready_for_[a].operation].end);
    if (!orders_[s].waits.empty()) device_.record(r->events[operation].start, stream);
    runtime::issue(device_, stream, r->operations[operation].before);
  }
  if (ranks.front()->operations[operation].transfer) transport_.transfer(operation, parts(s));
  for (const Rank* r : ranks) {
    const DeviceStream stream = stream_of(*r, s);
    runtime::issue(device_, stream, r->operations[operation].after);
    record(r->events[operation].end, stream, orders_[s].is_awaited);
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
  constexpr int kLooksApart = 20;  // some milliseconds: a look takes up to one
  const auto look = [&](int i) {
    transport_.check();
    if (options_.clocks != nullptr && i % kLooksApart == 0)
      options_.clocks->look([&] { return !device_.is_over(over_); });
  };
  wait(look, [&] {
    const std::string late = late_operation();
    give_up();
    return late + ": not over";
  });
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
      if (!device_.is_over(r->events[step.operation].end.timed)) return r->operations[step.operation].name;
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
    for (std::size_t s = 0; s < r.steps.size(); ++s) {
      const std::size_t operation = r.steps[s].operation;
      r.times[operation] = {device_.between(begin_.timed, start_of(r, s)),
                            device_.between(begin_.timed, r.events[operation].end.timed)};
    }
  }
}

}  // namespace moeplan::runtime
