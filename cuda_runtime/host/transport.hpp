// The interface of non-blocking messages between ranks. All calls come from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/base/ids.hpp"
#include "model/base/quantity.hpp"

namespace moeplan::runtime {

struct Message {
  RankId peer;
  std::int32_t tag;  // messages between two ranks with equal tags arrive in order
  bool is_send;
  std::byte* data;  // must stay valid until the message is complete; read-only for a send
  std::size_t bytes;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// Starts a send or receive. Returns the handle by which poll() reports its completion.
  [[nodiscard]] virtual std::size_t start(const Message& message) = 0;
  /// Makes progress on all messages and appends the handles of completed ones. Raises ExecutionError.
  virtual void poll(std::vector<std::size_t>& over) = 0;
  /// Waits for all ranks; raises ExecutionError if that exceeds the time-out. Returns the time at which the last rank
  /// arrived: the same instant on all ranks, expressed in this rank's host_clock().
  virtual std::int64_t barrier(Seconds time_out) = 0;
};

}  // namespace moeplan::runtime
