#include "cuda_runtime/device/barrier.hpp"

namespace moeplan::runtime {

void Barrier::meet(const std::function<void()>& act) {
  std::unique_lock lock(mutex_);
  raise();
  const std::size_t mine = number_;
  if (++arrived_ < size_) {
    changed_.wait(lock, [&] { return number_ != mine || failure_; });
    if (number_ == mine) raise();
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
  raise();
}

void Barrier::give_up(std::exception_ptr why) {
  const std::lock_guard lock(mutex_);
  if (!failure_) failure_ = std::move(why);
  changed_.notify_all();
}

void Barrier::raise_if_over() {
  const std::lock_guard lock(mutex_);
  raise();
}

}  // namespace moeplan::runtime
