#include "cuda_runtime/host/mailbox.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "cuda_runtime/backend.hpp"

namespace moeplan::runtime {

void Mailbox::exchange(std::span<const Message> messages) {
  if (messages.empty()) return;
  Posting posting{messages, messages.size()};
  std::unique_lock lock(mutex_);
  new_.push_back(&posting);
  asked_.notify_one();
  over_.wait(lock, [&] { return posting.open == 0 || stopped_; });
  if (posting.open > 0) throw ExecutionError("stopped");
}

void Mailbox::drive() {
  std::vector<Posting*> fresh;
  {
    const std::lock_guard lock(mutex_);
    fresh.swap(new_);
    woken_ = false;
  }
  for (Posting* p : fresh) {
    for (const Message& m : p->messages) under_way_[transport_.start(m)] = p;
  }
  std::vector<std::size_t> ended;
  if (!under_way_.empty()) transport_.poll(ended);
  if (!ended.empty()) {
    const std::lock_guard lock(mutex_);
    for (const std::size_t number : ended) {
      const auto it = under_way_.find(number);
      --it->second->open;
      under_way_.erase(it);
    }
    over_.notify_all();
  }
  wait_a_moment(!fresh.empty() || !ended.empty());
}

/// Waits with increasing back-off, because cores may be shared with the streams' threads: first yields, then short
/// sleeps, then longer ones while there is no progress.
void Mailbox::wait_a_moment(bool moved) {
  constexpr std::int64_t kYields = 16, kShortSleeps = 64;
  constexpr std::chrono::microseconds kShort(20), kLong(100), kIdle(1000);
  quiet_ = moved ? 0 : quiet_ + 1;
  if (moved) return;
  std::unique_lock lock(mutex_);
  const auto wakes = [&] { return !new_.empty() || woken_; };
  if (under_way_.empty()) {
    asked_.wait_for(lock, kIdle, wakes);
  } else if (quiet_ <= kYields) {
    lock.unlock();
    sched_yield();
  } else {
    asked_.wait_for(lock, quiet_ <= kYields + kShortSleeps ? kShort : kLong, wakes);
  }
}

void Mailbox::wake() {
  const std::lock_guard lock(mutex_);
  woken_ = true;
  asked_.notify_one();
}

void Mailbox::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  over_.notify_all();
}

}  // namespace moeplan::runtime
