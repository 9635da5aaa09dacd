#include "planner/sweep/run_sweep.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "model/base/diagnostics.hpp"
#include "model/base/in_parallel.hpp"

namespace moeplan::sweep {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kCommitEvery = 250ms;  // "within a second", with little loss if the process is killed
constexpr auto kLookEvery = 100ms;    // for the progress bar and signals

/// Worker threads that run cases and queue their results for a single consumer thread.
class Workers {
 public:
  Workers(CaseRunner& runner, std::vector<std::int64_t> numbers, int jobs)
      : runner_(runner), numbers_(std::move(numbers)) {
    const std::lock_guard lock(mutex_);  // no worker ends before all are counted
    threads_ =
        start_threads(std::min<std::size_t>(static_cast<std::size_t>(jobs), numbers_.size()), [this] { work(); });
    running_ = threads_.size();
    if (running_ == 0 && !numbers_.empty()) throw InputError(Diagnostic{{"sweep"}, "", "no thread can be started"});
  }
  ~Workers() {
    stop();
    for (std::thread& t : threads_) t.join();
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void stop() { stop_ = true; }

  /// The results since the last call; waits briefly if there are none. Rethrows exceptions of workers.
  std::vector<CaseResult> take() {
    std::unique_lock lock(mutex_);
    ready_.wait_for(lock, kLookEvery, [&] { return !results_.empty() || running_ == 0; });
    if (failure_) std::rethrow_exception(failure_);
    return std::exchange(results_, {});
  }

  /// Whether all workers are done. Rethrows exceptions of workers.
  bool finished() {
    const std::lock_guard lock(mutex_);
    if (failure_) std::rethrow_exception(failure_);
    return running_ == 0 && results_.empty();
  }

 private:
  void work() {
    try {
      for (std::size_t i = next_++; i < numbers_.size() && !stop_; i = next_++) {
        CaseResult result = runner_.run(numbers_[i], stop_);
        const std::lock_guard lock(mutex_);
        results_.push_back(std::move(result));
        ready_.notify_one();
      }
    } catch (const Interrupted&) {
    } catch (...) {
      stop_ = true;
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    --running_;
    ready_.notify_one();
  }

  CaseRunner& runner_;
  std::vector<std::int64_t> numbers_;
  std::atomic<std::size_t> next_ = 0;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::vector<CaseResult> results_;
  std::size_t running_ = 0;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

std::vector<std::int64_t> missing(const SweepSpec& sweep, const Shard& shard, const std::vector<std::int64_t>& there) {
  std::vector<std::int64_t> out;
  for (std::int64_t number = 0; number < std::ssize(sweep.cases); ++number) {
    if (shard.has(number) && !std::binary_search(there.begin(), there.end(), number)) out.push_back(number);
  }
  return out;
}

}  // namespace

SweepRun run_sweep(const SweepSpec& sweep, CaseRunner& runner, SweepStore& store, const Shard& shard, int jobs,
                   const std::atomic<bool>& stop, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const auto start = Clock::now();
  const std::vector<std::int64_t> there = store.numbers();
  std::vector<std::int64_t> numbers = missing(sweep, shard, there);
  SweepRun run{.kept = std::ssize(there), .wanted = std::ssize(there) + std::ssize(numbers)};
  Workers workers(runner, std::move(numbers), jobs);
  auto last_commit = Clock::now();
  while (!workers.finished() && !stop) {
    for (const CaseResult& result : workers.take()) {
      store.add(result);
      ++run.ran;
    }
    if (Clock::now() - last_commit > kCommitEvery) {
      store.commit();
      last_commit = Clock::now();
    }
    progress(run.kept + run.ran, run.wanted);
  }
  workers.stop();
  if (stop) {
    for (const CaseResult& result : workers.take()) {
      store.add(result);
      ++run.ran;
    }
  }
  store.commit();
  run.interrupted = run.kept + run.ran < run.wanted;
  run.shared = runner.shared();
  run.wall_s = std::chrono::duration<double>(Clock::now() - start).count();
  return run;
}

}  // namespace moeplan::sweep
