// A queue of messages on which streams' threads block while a single thread drives the transport.
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

  /// Posts messages and waits until all are complete. From any thread except the driving one. Raises ExecutionError
  /// once stop() was called.
  void exchange(std::span<const Message> messages);

  /// Starts posted messages and makes progress on all; if there was none, waits briefly. From one thread only.
  void drive();
  /// Wakes drive() from its wait, after work was added.
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
  std::unordered_map<std::size_t, Posting*> under_way_;  // by Transport handle
  std::int64_t quiet_ = 0;                               // consecutive polls without progress
  bool woken_ = false;
  bool stopped_ = false;
};

}  // namespace moeplan::runtime
