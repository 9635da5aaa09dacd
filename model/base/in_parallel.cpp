#include "model/base/in_parallel.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <utility>

#include "model/base/whole_numbers.hpp"

namespace moeplan {

int threads_or_cores(std::int64_t requested) {
  return static_cast<int>(requested > 0 ? requested : std::max(1U, std::thread::hardware_concurrency()));
}

int threads_of_each(std::size_t n, int threads) {
  return n < 2 ? threads : static_cast<int>(ceil_div(threads, static_cast<std::int64_t>(n)));
}

namespace {

/// Whether so many further bytes of addresses are to be had now.
bool has_room(std::size_t bytes) {
  void* room = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return false;
  (void)::munmap(room, bytes);
  return true;
}

}  // namespace

std::vector<std::thread> start_threads(std::size_t n, const std::function<void()>& run) {
  constexpr std::size_t kRoom = std::size_t{24} << 20;  // addresses of a thread: 8 MiB of stack, and for its work
  constexpr std::size_t kOthers = std::size_t{64} << 20;
  // The allocator of a thread that finds no room for its first block ends the program: better fewer threads.
  while (n > 0 && !has_room(kOthers + n * kRoom)) n /= 2;
  std::vector<std::thread> out;
  out.reserve(n);
  try {
    while (out.size() < n) out.emplace_back(run);
  } catch (const std::system_error&) {  // those that there are do the work
  }
  return out;
}

/// Threads that wait for something to run.
class KeptThreads::Team {
 public:
  explicit Team(std::size_t others) : threads_(start_threads(others, [this] { serve(); })) {}
  ~Team() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    has_work_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  /// Calls run() on the calling thread and on up to `others` further ones. Those that have not begun when the calling
  /// thread is done are not waited for: nothing is left for them.
  void share(std::size_t others, const std::function<void()>& run) {
    {
      const std::lock_guard lock(mutex_);
      run_ = &run;
      open_ = others;
    }
    has_work_.notify_all();
    run();
    std::unique_lock lock(mutex_);
    open_ = 0;
    is_done_.wait(lock, [&] { return busy_ == 0; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      has_work_.wait(lock, [&] { return ends_ || open_ > 0; });
      if (ends_) return;
      --open_;
      ++busy_;
      const std::function<void()>& run = *run_;
      lock.unlock();
      run();
      lock.lock();
      if (--busy_ == 0) is_done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable has_work_, is_done_;
  const std::function<void()>* run_ = nullptr;
  std::size_t open_ = 0, busy_ = 0;  // threads that may still begin, and that have begun
  bool ends_ = false;
  std::vector<std::thread> threads_;  // last: they use the others
};

thread_local KeptThreads::Team* KeptThreads::of_this_thread_ = nullptr;

KeptThreads::KeptThreads(int threads) {
  if (threads < 2 || of_this_thread_) return;
  team_ = std::make_unique<Team>(static_cast<std::size_t>(threads - 1));
  of_this_thread_ = team_.get();
}

KeptThreads::~KeptThreads() {
  if (team_) of_this_thread_ = nullptr;
}

void in_parallel(std::size_t n, int threads, const std::function<void(std::size_t)>& work) {
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
  if (wanted < 2) {
    run();
  } else if (KeptThreads::Team* team = std::exchange(KeptThreads::of_this_thread_, nullptr)) {
    team->share(wanted - 1, run);
    KeptThreads::of_this_thread_ = team;
  } else {
    std::vector<std::thread> others = start_threads(wanted - 1, run);
    run();
    for (std::thread& t : others) t.join();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace moeplan
