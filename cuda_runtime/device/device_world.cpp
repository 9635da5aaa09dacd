#include "cuda_runtime/device/device_world.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <thread>

#include "cuda_runtime/device/barrier.hpp"
#include "model/base/diagnostics.hpp"

namespace moeplan::runtime {

class DeviceWorld::Rank final : public Backend {
 public:
  Rank(DeviceExecution& run, Barrier& meeting, std::mutex& mutex, std::size_t index)
      : run_(run), meeting_(meeting), mutex_(mutex), index_(index) {}

  void allocate(std::span<const BufferShape> buffers) override {
    has_fp8_ = std::any_of(buffers.begin(), buffers.end(), [](const BufferShape& s) { return s.dtype == Dtype::Fp8; });
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
  void make(BufferId buffer, const MadeElements& elements) override {
    const std::lock_guard lock(mutex_);
    run_.make(index_, buffer, elements);
  }
  void clear(BufferId buffer) override {
    const std::lock_guard lock(mutex_);
    run_.buffer(index_, buffer).clear();
  }
  void prepare(const Work& work, const std::string& name) override {
    if (has_fp8_ && !std::holds_alternative<GemmWork>(work) && !std::holds_alternative<CopyRowsWork>(work)) {
      throw InputError(Diagnostic{{"execution"}, "", "fp8 is not computed with on GPUs, but in products"});
    }
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
    meeting_.meet([&] { run_.execute(); });
    return run_.times(index_);
  }

 private:
  DeviceExecution& run_;
  Barrier& meeting_;
  std::mutex& mutex_;
  std::size_t index_;
  bool has_fp8_ = false;  // a buffer
  std::vector<DeviceStep> steps_;
};

struct DeviceWorld::Run {
  Run(Device& device, DeviceTransport& transport, std::vector<RankId> ranks, DeviceOptions options)
      : meeting(ranks.size()), run(device, transport, std::move(ranks), std::move(options)) {
    for (std::size_t i = 0; i < run.size(); ++i) backends.emplace_back(run, meeting, mutex, i);
  }
  std::mutex mutex;
  Barrier meeting;
  DeviceExecution run;
  std::deque<Rank> backends;
};

DeviceWorld::DeviceWorld(Device& device, DeviceTransport& transport, std::vector<RankId> ranks, DeviceOptions options)
    : run_(std::make_unique<Run>(device, transport, std::move(ranks), std::move(options))) {}
DeviceWorld::~DeviceWorld() = default;

std::size_t DeviceWorld::size() const { return run_->run.size(); }
RankId DeviceWorld::rank(std::size_t i) const { return run_->run.rank(i); }
Backend& DeviceWorld::backend(std::size_t i) { return run_->backends[i]; }

void DeviceWorld::give_up(std::exception_ptr why) { run_->meeting.give_up(std::move(why)); }

void DeviceWorld::run(const std::function<void(RankId, Backend&)>& job) {
  if (size() == 1) return job(rank(0), backend(0));
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          job(rank(i), backend(i));
        } catch (...) {
          give_up(std::current_exception());
        }
      });
    }
  }
  run_->meeting.raise_if_over();
}

}  // namespace moeplan::runtime
