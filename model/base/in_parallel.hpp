// Parallel execution of independent work items on several threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
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
inline void in_parallel(std::size_t n, int threads, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex mutex;
  const auto run = [&] {
    for (std::size_t i = next++; i < n; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  const auto wanted = std::min<std::size_t>(static_cast<std::size_t>(threads), n);
  std::vector<std::thread> others = start_threads(wanted == 0 ? 0 : wanted - 1, run);
  run();
  for (std::thread& t : others) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace moeplan
