#include "cuda_runtime/host/host_backend.hpp"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "cuda_runtime/host/element_format.hpp"
#include "cuda_runtime/host/host_compute.hpp"
#include "cuda_runtime/host/host_transfers.hpp"
#include "cuda_runtime/kernels/one_lane.hpp"
#include "model/base/diagnostics.hpp"
#include "model/text/reader.hpp"

namespace moeplan::runtime {

namespace {

class HostBackend final : public Backend {
 public:
  HostBackend(Transport& transport, HostOptions options)
      : transport_(transport), options_(std::move(options)), mailbox_(transport) {}

  ~HostBackend() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    mailbox_.stop();
    for (auto& thread : threads_) {
      if (thread) thread->join();
    }
  }

  void allocate(std::span<const BufferShape> buffers) override {
    for (const BufferShape& shape : buffers) {
      if (!has_host_format(shape.dtype)) {
        throw InputError(
            Diagnostic{{"execution"},
                       "",
                       fmt::format("{} is not computed with on CPUs", name_of<Dtype>(kDtypeNames, shape.dtype))});
      }
    }
    buffers_ = host_buffers(buffers);
  }

  void write_row(BufferId buffer, std::int64_t row, std::span<const double> values) override {
    const std::vector<float> floats(values.begin(), values.end());
    buffers_[buffer.index()].store_row(row, floats);
  }

  std::vector<double> read_row(BufferId buffer, std::int64_t row) override {
    std::vector<float> floats(buffers_[buffer.index()].columns());
    buffers_[buffer.index()].load_row(row, floats);
    return {floats.begin(), floats.end()};
  }

  void make(BufferId id, const MadeElements& elements) override {
    HostBuffer& buffer = buffers_[id.index()];
    const kernels::View view{buffer.at(0), buffer.shape().columns, format_of(buffer.shape().dtype)};
    kernels::OneLane::run(elements.call(view, elements.runs.data(), std::ssize(elements.runs)));
  }

  void clear(BufferId buffer) override { buffers_[buffer.index()].clear(); }

  void prepare(const Work& work, const std::string& name) override { operations_.push_back({work, name}); }

  void begin() override {
    for (Operation& o : operations_) o.has_ended = false;
    begin_ = transport_.barrier(options_.time_out);
  }

  void enqueue(std::size_t operation, Stream stream, std::span<const std::size_t> after) override {
    const auto index = static_cast<std::size_t>(stream);
    {
      const std::lock_guard lock(mutex_);
      queues_[index].push_back({operation, {after.begin(), after.end()}});
      ++open_;
    }
    if (!threads_[index]) threads_[index].emplace([this, index] { run(index); });
    changed_.notify_all();
  }

  std::vector<OperationTime> finish() override {
    while (!is_over()) {
      mailbox_.drive();
      look_for_delays();
    }
    std::vector<OperationTime> times;
    for (const Operation& o : operations_) times.push_back(o.time);
    return times;
  }

 private:
  struct Operation {
    Work work;
    std::string name;
    OperationTime time{};
    bool has_ended = false;
    std::int64_t reached = 0;  // host_clock() while a communication is in progress, else 0
  };
  struct Entry {
    std::size_t operation;
    std::vector<std::size_t> after;
  };

  [[nodiscard]] Seconds now() const { return Seconds(static_cast<double>(host_clock() - begin_) * 1e-9); }

  [[nodiscard]] bool is_over() {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    return open_ == 0;
  }

  /// The thread of a stream.
  void run(std::size_t stream) {
    try {
      while (const std::optional<std::size_t> next = next_of(stream)) {
        execute(*next);
        const std::lock_guard lock(mutex_);
        operations_[*next].has_ended = true;
        if (--open_ == 0) mailbox_.wake();
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_ && !stopping_) failure_ = std::current_exception();
      mailbox_.wake();
    }
  }

  /// Waits for the next operation and for its dependencies. None once the back end is being destroyed.
  std::optional<std::size_t> next_of(std::size_t stream) {
    std::unique_lock lock(mutex_);
    std::deque<Entry>& queue = queues_[stream];
    changed_.wait(lock, [&] {
      if (stopping_) return true;
      if (queue.empty()) return false;
      for (const std::size_t a : queue.front().after) {
        if (!operations_[a].has_ended) return false;
      }
      return true;
    });
    if (stopping_) return std::nullopt;
    const std::size_t operation = queue.front().operation;
    queue.pop_front();
    return operation;
  }

  void execute(std::size_t index) {
    Operation& o = operations_[index];
    if (options_.on_reach) options_.on_reach(o.name);
    const bool waits = communicates(o.work);
    if (waits) set_reached(o, host_clock());
    o.time.start = now();
    std::visit(
        [&](const auto& work) {
          using Kind = std::decay_t<decltype(work)>;
          if constexpr (std::is_same_v<Kind, ExchangeWork> || std::is_same_v<Kind, CollectiveWork>) {
            transfer(work, buffers_, mailbox_, static_cast<std::int32_t>(index));
          } else if constexpr (std::is_same_v<Kind, CodecWork>) {
            compute(work, buffers_, options_.codecs);
          } else {
            compute(work, buffers_);
          }
        },
        o.work);
    o.time.end = now();
    if (waits) set_reached(o, 0);
  }

  void set_reached(Operation& o, std::int64_t when) {
    const std::lock_guard lock(mutex_);
    o.reached = when;
  }

  void look_for_delays() {
    const std::lock_guard lock(mutex_);
    const std::int64_t clock = host_clock();
    for (const Operation& o : operations_) {
      if (o.reached == 0 || static_cast<double>(clock - o.reached) * 1e-9 < options_.time_out.value()) continue;
      throw ExecutionError(fmt::format("rank {}: {}: others have not come within {} s", options_.rank.value(), o.name,
                                       options_.time_out.value()));
    }
  }

  Transport& transport_;
  HostOptions options_;
  Mailbox mailbox_;
  std::vector<HostBuffer> buffers_;
  std::vector<Operation> operations_;
  std::int64_t begin_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<std::deque<Entry>, kStreamNames.size()> queues_;
  std::array<std::optional<std::thread>, kStreamNames.size()> threads_;
  std::size_t open_ = 0;
  std::exception_ptr failure_;
  bool stopping_ = false;
};

}  // namespace

std::int64_t host_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::unique_ptr<Backend> make_host_backend(Transport& transport, HostOptions options) {
  return std::make_unique<HostBackend>(transport, std::move(options));
}

}  // namespace moeplan::runtime
