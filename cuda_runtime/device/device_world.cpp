#include "cuda_runtime/device/device_world.hpp"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "cuda_runtime/device/device_run.hpp"
#include "model/base/diagnostics.hpp"
#include "model/base/reader.hpp"

namespace moeplan {

/// Threads that wait for each other; the last one does what there is to do.
class DeviceWorld::Round {
 public:
  explicit Round(std::size_t size) : size_(size) {}

  /// Raises what `act` raised, and ExecutionError once a rank has given up.
  template <class Act>
  void meet(Act act) {
    std::unique_lock lock(mutex_);
    raise_if_over();
    const std::size_t mine = number_;
    if (++arrived_ < size_) {
      changed_.wait(lock, [&] { return number_ != mine || failure_; });
      if (number_ == mine) raise_if_over();
      return;
    }
    try {
      act();
    } catch (...) {
      failure_ = std::current_exception();
    }
    arrived_ = 0;
    if (!failure_) ++number_;
    changed_.notify_all();
    raise_if_over();
  }
  void give_up(std::exception_ptr why) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = why;
    changed_.notify_all();
  }
  void raise_if_over() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::size_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t arrived_ = 0;
  std::size_t number_ = 0;
  std::exception_ptr failure_;
};

class DeviceWorld::Rank final : public Backend {
 public:
  Rank(DeviceRun& run, Round& round, std::mutex& mutex, std::size_t index)
      : run_(run), round_(round), mutex_(mutex), index_(index) {}

  void allocate(std::span<const BufferShape> buffers) override {
    for (const BufferShape& shape : buffers) {
      if (shape.dtype != Dtype::Fp8) continue;
      throw InputError(Diagnostic{
          {"execution"}, "", fmt::format("{} is not computed with on GPUs", name_of<Dtype>(kDtypeNames, shape.dtype))});
    }
    const std::lock_guard lock(mutex_);
    run_.allocate(index_, buffers);
  }
  void write_row(BufferId buffer, std::int64_t row, std::span<const double> values) override {
    const std::lock_guard lock(mutex_);
    run_.buffer(index_, buffer).write_row(row, values);
  }
  std::vector<double> read_row(BufferId buffer, std::int64_t row) override {
    const std::lock_guard lock(mutex_);
    return run_.buffer(index_, buffer).read_row(row);
  }
  void clear(BufferId buffer) override {
    const std::lock_guard lock(mutex_);
    run_.buffer(index_, buffer).clear();
  }
  void prepare(const Work& work, const std::string& name) override {
    const std::lock_guard lock(mutex_);
    run_.prepare(index_, work, name);
  }
  void begin() override { steps_.clear(); }
  void enqueue(std::size_t operation, Stream stream, std::span<const std::size_t> after) override {
    steps_.push_back({operation, stream, {after.begin(), after.end()}});
  }
  std::vector<OperationTime> finish() override {
    {
      const std::lock_guard lock(mutex_);
      run_.set_steps(index_, steps_);
    }
    round_.meet([&] { run_.execute(); });
    return run_.times(index_);
  }

 private:
  DeviceRun& run_;
  Round& round_;
  std::mutex& mutex_;
  std::size_t index_;
  std::vector<DeviceStep> steps_;
};

struct DeviceWorld::Run {
  Run(Device& device, DeviceTransport& transport, std::vector<RankId> ranks, DeviceOptions options)
      : round(ranks.size()), run(device, transport, std::move(ranks), std::move(options)) {
    for (std::size_t i = 0; i < run.size(); ++i) backends.emplace_back(run, round, mutex, i);
  }
  std::mutex mutex;
  Round round;
  DeviceRun run;
  std::deque<Rank> backends;
};

DeviceWorld::DeviceWorld(Device& device, DeviceTransport& transport, std::vector<RankId> ranks, DeviceOptions options)
    : run_(std::make_unique<Run>(device, transport, std::move(ranks), std::move(options))) {}
DeviceWorld::~DeviceWorld() = default;

std::size_t DeviceWorld::size() const { return run_->run.size(); }
RankId DeviceWorld::rank(std::size_t i) const { return run_->run.rank(i); }
Backend& DeviceWorld::backend(std::size_t i) { return run_->backends[i]; }

void DeviceWorld::run(const std::function<void(RankId, Backend&)>& job) {
  if (size() == 1) return job(rank(0), backend(0));
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          job(rank(i), backend(i));
        } catch (...) {
          run_->round.give_up(std::current_exception());
        }
      });
    }
  }
  run_->round.raise_if_over();
}

}  // namespace moeplan
