// Threads that wait for each other.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>

namespace moeplan::runtime {

class Barrier {
 public:
  explicit Barrier(std::size_t size) : size_(size) {}

  /// Waits for all; the last one to come does what there is to do before the others go on. Raises what that raised, on
  /// all of them, and what somebody gave up with.
  void meet(const std::function<void()>& act);
  /// Ends the waiting of all, now and later.
  void give_up(std::exception_ptr why);
  void raise_if_over();

 private:
  void raise() const {
    if (failure_) std::rethrow_exception(failure_);
  }

  std::size_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t arrived_ = 0;
  std::size_t number_ = 0;  // of meetings that are over
  std::exception_ptr failure_;
};

}  // namespace moeplan::runtime
