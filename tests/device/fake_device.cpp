#include "tests/device/fake_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "cuda_runtime/host/element_format.hpp"
#include "cuda_runtime/kernels/one_lane.hpp"

namespace moeplan::tests {

using namespace runtime;

namespace {

[[noreturn]] void misused(const std::string& how) { throw std::logic_error("a device is misused: " + how); }

float factor(Dtype dtype, const void* data, std::int64_t i) {
  if (dtype == Dtype::Fp8) return kernels::from_fp8(static_cast<const std::uint8_t*>(data)[i]);
  return kernels::load1(format_of(dtype), data, i);
}

void multiply_on_cpu(Gemm::Form form, Dtype dtype, kernels::Format result, const MatrixProduct& p) {
  for (std::int64_t i = 0; i < p.m; ++i) {
    for (std::int64_t j = 0; j < p.n; ++j) {
      float sum = p.accumulates ? kernels::load1(result, p.c, i * p.n + j) : 0.0F;
      for (std::int64_t l = 0; l < p.k; ++l) {
        const float a = factor(dtype, p.a, form == Gemm::Form::TN ? l * p.m + i : i * p.k + l);
        const float b = factor(dtype, p.b, form == Gemm::Form::NT ? j * p.k + l : l * p.n + j);
        sum += a * b;
      }
      kernels::store1(result, p.c, i * p.n + j, sum);
    }
  }
}

}  // namespace

bool FakeDevice::is_clean() const {
  const auto is_free = [](const auto& x) { return x.is_free; };
  return memory_.empty() && has_nothing_to_do() && !capture_ &&
         std::all_of(streams_.begin(), streams_.end(), is_free) &&
         std::all_of(events_.begin(), events_.end(), is_free) && std::all_of(graphs_.begin(), graphs_.end(), is_free);
}

std::size_t FakeDevice::calls(const std::string& name) const {
  const auto it = calls_.find(name);
  return it == calls_.end() ? 0 : it->second;
}

void FakeDevice::count(const std::string& call) {
  const std::size_t n = calls_[call]++;
  log_.push_back(call);
  if (const auto it = failing_.find(call); it != failing_.end() && n >= it->second) {
    throw ExecutionError(call + ": made to fail");
  }
}

FakeDevice& FakeDevice::of(CUstream_st* native) { return *reinterpret_cast<FakeDevice*>(native); }
CUstream_st* FakeDevice::native(DeviceStream) const {
  return reinterpret_cast<CUstream_st*>(const_cast<FakeDevice*>(this));
}

std::byte* FakeDevice::allocate(std::size_t bytes) {
  count("allocate");
  constexpr std::size_t kAlignment = 256;
  auto* data =
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment));
  if (data == nullptr) throw ExecutionError("allocate: out of memory");
  if (!costs_) std::memset(data, 0xff, bytes);
  memory_[data] = bytes;
  return data;
}

void FakeDevice::release(std::byte* data) {
  if (memory_.erase(data) == 0) misused("memory is given back that nobody has");
  if (!has_nothing_to_do() && !hangs_) misused("memory is given back while something runs");
  std::free(data);
}

void FakeDevice::check_range(const std::byte* data, std::size_t bytes) const {
  auto it = memory_.upper_bound(const_cast<std::byte*>(data));
  if (it == memory_.begin()) misused("an address that is nobody's");
  --it;
  if (data + bytes > it->first + it->second) misused(fmt::format("{} bytes beyond the end of memory", bytes));
}

void FakeDevice::copy_in(std::byte* to, std::span<const std::byte> from) {
  count("copy_in");
  if (!has_nothing_to_do()) misused("the host copies while something runs");
  check_range(to, from.size());
  copied_in_ += from.size();
  largest_copy_ = std::max(largest_copy_, from.size());
  std::memcpy(to, from.data(), from.size());
}

void FakeDevice::copy_out(std::span<std::byte> to, const std::byte* from) {
  count("copy_out");
  if (!has_nothing_to_do()) misused("the host copies while something runs");
  check_range(from, to.size());
  largest_copy_ = std::max(largest_copy_, to.size());
  std::memcpy(to.data(), from, to.size());
}

DeviceStream FakeDevice::make_stream(std::optional<std::size_t>, bool is_urgent) {
  count("make_stream");
  if (is_urgent) count("make an urgent stream");
  streams_.push_back({});
  is_in_capture_.push_back(false);
  return DeviceStream(streams_.size() - 1);
}

DeviceEvent FakeDevice::make_event(bool is_timed) {
  count("make_event");
  events_.push_back({is_timed});
  return DeviceEvent(events_.size() - 1);
}

void FakeDevice::release(DeviceStream stream) {
  Queue& queue = streams_[stream.index()];
  if (queue.is_free) misused("a stream is given back twice");
  if (!queue.commands.empty() && !hangs_) misused("a stream is given back that has something to do");
  queue.is_free = true;
}

void FakeDevice::release(DeviceEvent event) {
  Event& e = events_[event.index()];
  if (e.is_free) misused("an event is given back twice");
  if (e.over < e.asked && !hangs_) misused("an event is given back that is not over");
  e.is_free = true;
}

void FakeDevice::release(DeviceGraph graph) {
  count("release graph");
  Graph& g = graphs_[graph.index()];
  if (g.is_free) misused("a graph is given back twice");
  g.is_free = true;
}

/// To the stream, or to the graph under way.
void FakeDevice::add(DeviceStream stream, Command command) {
  if (!capture_) return enqueue(stream, std::move(command));
  if (!is_in_capture_[stream.index()]) misused("a stream that is not part of the capture");
  capture_->commands.emplace_back(stream, std::move(command));
}

void FakeDevice::enqueue(DeviceStream stream, Command command) {
  Event* event = command.kind != Kind::Record && command.kind != Kind::Wait ? nullptr : &events_[command.event.index()];
  if (command.kind == Kind::Record) command.record = ++event->asked;
  if (command.kind == Kind::Wait) command.record = event->asked;
  if (streams_[stream.index()].is_free || (event != nullptr && event->is_free)) misused("what was given back is used");
  streams_[stream.index()].commands.push_back(std::move(command));
}

void FakeDevice::record(DeviceEvent event, DeviceStream stream) {
  count("record");
  add(stream, {Kind::Record, event});
  events_[event.index()].is_captured = capture_.has_value();
}

void FakeDevice::wait(DeviceStream stream, DeviceEvent event) {
  count("wait");
  const Event& e = events_[event.index()];
  if (capture_) {
    if (!e.is_captured) misused("a capture waits for an event from outside");
    if (e.is_timed) misused("a capture waits for an event that keeps its time");
    is_in_capture_[stream.index()] = true;
  } else if (e.asked == 0) {
    misused("a wait for an event that was never recorded");
  }
  add(stream, {Kind::Wait, event});
}

bool FakeDevice::is_over(DeviceEvent event) {
  count("is_over");
  const Event& e = events_[event.index()];
  constexpr int kSteps = 64;
  for (int i = 0; i < kSteps && e.over < e.asked && !hangs_; ++i) {
    if (!step()) misused("nothing can run any more");
  }
  return e.over >= e.asked;
}

bool FakeDevice::is_idle() {
  while (!hangs_ && step()) {
  }
  return has_nothing_to_do();
}

Seconds FakeDevice::between(DeviceEvent from, DeviceEvent to) {
  const Event &a = events_[from.index()], &b = events_[to.index()];
  if (!a.is_timed || !b.is_timed) misused("an event without a time");
  if (a.over == 0 || b.over == 0) misused("the time of an event that is not over");
  return Seconds(b.when - a.when);
}

bool FakeDevice::has_nothing_to_do() const {
  return std::all_of(streams_.begin(), streams_.end(), [](const Queue& q) { return q.commands.empty(); });
}

bool FakeDevice::can_run(const Command& c) const {
  if (c.kind == Kind::Hold) return c.is_over() || expires_;
  return c.kind != Kind::Wait || events_[c.event.index()].over >= c.record;
}

/// One command of a stream drawn at random.
bool FakeDevice::step() {
  std::vector<std::size_t> able;
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    const auto& commands = streams_[s].commands;
    if (!commands.empty() && can_run(commands.front())) able.push_back(s);
  }
  if (able.empty()) return false;
  Queue& stream = streams_[able[random_.below(able.size())]];
  const Command command = std::move(stream.commands.front());
  stream.commands.pop_front();
  clock_ += 1e-6;
  stream.time += command.cost;
  if (command.kind == Kind::Run && !costs_) command.run();
  if (command.kind == Kind::Hold) has_expired_ = expires_;
  if (command.kind == Kind::Wait) stream.time = std::max(stream.time, events_[command.event.index()].when);
  if (command.kind == Kind::Record) {
    Event& e = events_[command.event.index()];
    e.over = command.record;
    e.when = costs_ ? stream.time : clock_;
  }
  return true;
}

void FakeDevice::clear(DeviceStream stream, std::byte* data, std::size_t bytes) {
  count("clear");
  check_range(data, bytes);
  add(stream, {Kind::Run, {}, 0, [=] { std::memset(data, 0, bytes); }});
}

void FakeDevice::read(DeviceStream stream, const std::byte* data, std::size_t bytes) {
  count("read");
  check_range(data, bytes);
  add(stream, {Kind::Run, {}, 0, [] {}});
}

void FakeDevice::hold(DeviceStream stream, std::function<bool()> is_over) {
  count("hold");
  if (capture_) misused("a hold within a capture");
  streams_[stream.index()].commands.push_back({Kind::Hold, {}, 0, {}, 0, std::move(is_over)});
}

void FakeDevice::hold(DeviceStream stream, Seconds) {
  if (resumed_ < holds_) misused("a hold within a hold");
  hold(stream, [this, number = holds_ + 1] { return resumed_ >= number; });
  ++holds_;
}

void FakeDevice::resume() noexcept {
  log_.emplace_back("resume");
  resumed_ = holds_;
}

/// The cost of a command, given what other streams have to do.
double FakeDevice::slowed(DeviceStream stream, double cost) const {
  const auto multiplies = [](const Command& c) { return c.multiplies; };
  bool is_slowed = false;
  if (capture_) {
    for (const auto& [of, command] : capture_->commands) is_slowed |= of != stream && multiplies(command);
  } else {
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      const auto& commands = streams_[s].commands;
      is_slowed |= s != stream.index() && std::any_of(commands.begin(), commands.end(), multiplies);
    }
  }
  return is_slowed ? cost * costs_->slowdown : cost;
}

void FakeDevice::copy(DeviceStream stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  count("copy");
  check_range(to, bytes);
  check_range(from, bytes);
  add(stream,
      {Kind::Run, {}, 0, [=] { std::memmove(to, from, bytes); }, costs_ ? slowed(stream, costs_->copy(bytes)) : 0.0});
}

/// The messages share the receiver's port, but not those of other calls.
void FakeDevice::send(DeviceStream stream, std::span<const LinkMessage> messages, BytesPerSecond bandwidth) {
  count("send");
  double seconds = 0;
  for (const LinkMessage& m : messages) {
    check_range(m.to, m.bytes);
    check_range(m.from, m.bytes);
    check_range(m.out, sizeof(std::uint64_t));
    check_range(m.in, sizeof(std::uint64_t));
    seconds += static_cast<double>(m.bytes) / bandwidth.value();
  }
  add(stream, {Kind::Run,
               {},
               0,
               [all = std::vector(messages.begin(), messages.end())] {
                 for (const LinkMessage& m : all) std::memmove(m.to, m.from, m.bytes);
               },
               costs_ ? slowed(stream, seconds) : 0.0});
}

void FakeDevice::launch(DeviceStream stream, const kernels::KernelCall& call) {
  count("launch");
  add(stream, {Kind::Run,
               {},
               0,
               [call] { std::visit([](const auto& kernel) { kernels::OneLane::run(kernel); }, call); },
               costs_ ? slowed(stream, costs_->kernel(call)) : 0.0});
}

void FakeDevice::multiply(DeviceStream stream, const Products& products) {
  count("multiply");
  const std::vector<MatrixProduct> list(products.products.begin(), products.products.end());
  check_products(list, products.result);
  add(stream, {Kind::Run,
               {},
               0,
               [list, form = products.form, dtype = products.dtype, result = format_of(products.result)] {
                 for (const MatrixProduct& p : list) multiply_on_cpu(form, dtype, result, p);
               },
               costs_ ? costs_->products(products) : 0.0,
               {},
               /*multiplies=*/true});
}

/// What a call that takes them all at once relies on.
void FakeDevice::check_products(std::span<const MatrixProduct> list, Dtype result) const {
  std::map<const std::byte*, const std::byte*> written;  // from, to
  for (const MatrixProduct& p : list) {
    if (p.m < 1 || p.n < 1 || p.k < 1) misused("a product of nothing");
    const auto* c = static_cast<const std::byte*>(p.c);
    if (!written.emplace(c, c + p.m * p.n * size_of(result)).second) misused("two products to one place at once");
  }
  const std::byte* end = nullptr;
  for (const auto& [from, to] : written) {
    if (end != nullptr && from < end) misused("products to places that overlap, at once");
    end = to;
  }
}

void FakeDevice::begin_capture(DeviceStream stream) {
  count("begin_capture");
  if (capture_) misused("a capture within a capture");
  capture_ = Graph{stream, {}, false};
  is_in_capture_.assign(streams_.size(), false);
  is_in_capture_[stream.index()] = true;
}

DeviceGraph FakeDevice::end_capture(DeviceStream stream) {
  count("end_capture");
  if (!capture_ || capture_->origin != stream) misused("a capture ends that did not begin");
  graphs_.push_back(std::move(*capture_));
  capture_.reset();
  for (Event& e : events_) e.is_captured = false;
  return DeviceGraph(graphs_.size() - 1);
}

void FakeDevice::abandon_capture(DeviceStream) noexcept {
  capture_.reset();
  for (Event& e : events_) e.is_captured = false;
}

/// A graph begins once its stream comes to it, and the stream goes on once all of it has ended.
void FakeDevice::launch(DeviceStream stream, DeviceGraph graph) {
  count("launch graph");
  const Graph& g = graphs_[graph.index()];
  if (g.is_free) misused("a graph that was given back");
  if (g.origin != stream) misused("a graph on another stream than its capture's");
  for (const auto& [s, command] : g.commands) enqueue(s, command);
}

}  // namespace moeplan::tests
