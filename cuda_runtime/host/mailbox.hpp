// Messages that streams' threads wait for while one thread moves them on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "cuda_runtime/host/transport.hpp"

namespace moeplan::runtime {

class Mailbox {
 public:
  explicit Mailbox(Transport& transport) : transport_(transport) {}

  /// Waits until all are over. From any thread but the one that drives; raises ExecutionError once stop() was called.
  void exchange(std::span<const Message> messages);

  /// Starts what is asked for and moves everything on, then waits a moment if nothing moved. From one thread.
  void drive();
  /// Wakes drive(), which has more to look at.
  void wake();
  void stop();

 private:
  struct Posting {
    std::span<const Message> messages;
    std::size_t open = 0;
  };
  void wait_a_moment(bool moved);

  Transport& transport_;
  std::mutex mutex_;
  std::condition_variable over_, asked_;
  std::vector<Posting*> new_;
  std::unordered_map<std::size_t, Posting*> under_way_;  // by number of the transport
  std::int64_t quiet_ = 0;                               // looks in a row at which nothing moved
  bool woken_ = false;
  bool stopped_ = false;
};

}  // namespace moeplan::runtime
