// A reusable thread barrier with a completion function and failure propagation.
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

  /// Waits for all threads; the last one to arrive executes `act` before any of them continues. On all threads, raises
  /// what `act` raised or what was passed to give_up().
  void meet(const std::function<void()>& act);
  /// Fails all current and future waits with this exception.
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
  std::size_t number_ = 0;  // completed barriers
  std::exception_ptr failure_;
};

}  // namespace moeplan::runtime
