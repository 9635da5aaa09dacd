// Parallel execution of independent work items on several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace moeplan {

/// The requested number of threads, or one a core if that is 0.
[[nodiscard]] int threads_or_cores(std::int64_t requested);

/// Starts up to `n` threads that call run(), fewer where the system has no more (a container's limit of processes, say)
/// or where their stacks would leave no room for their work.
[[nodiscard]] std::vector<std::thread> start_threads(std::size_t n, const std::function<void()>& run);

/// Calls work(i) for all i < n on at most `threads` threads, including the calling one. If any call throws, the first
/// exception is rethrown here.
void in_parallel(std::size_t n, int threads, const std::function<void(std::size_t)>& work);

/// How many threads each of n work items that run in parallel may use itself, so that `threads` have work.
[[nodiscard]] int threads_of_each(std::size_t n, int threads);

/// Threads for many calls of in_parallel(). While it exists, calls by the thread that created it use its threads, which
/// keep their thread-local caches from call to call, instead of starting new ones. Calls within a work item start their
/// own. Without effect where the creating thread has one already.
class KeptThreads {
 public:
  /// `threads` includes the creating one.
  explicit KeptThreads(int threads);
  ~KeptThreads();
  KeptThreads(const KeptThreads&) = delete;
  KeptThreads& operator=(const KeptThreads&) = delete;

 private:
  class Team;
  friend void in_parallel(std::size_t n, int threads, const std::function<void(std::size_t)>& work);

  static thread_local Team* of_this_thread_;
  std::unique_ptr<Team> team_;
};

}  // namespace moeplan
