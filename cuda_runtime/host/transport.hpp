// Messages between ranks, non-blocking. All calls come from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/base/ids.hpp"
#include "model/base/quantity.hpp"

namespace moeplan::runtime {

struct Message {
  RankId peer;
  std::int32_t tag;  // messages of a pair with one tag arrive in their order
  bool is_send;
  std::byte* data;  // stays until the message is over; a send only reads it
  std::size_t bytes;
};

class Transport {
 public:
  virtual ~Transport() = default;
  /// Begins to send or receive; the number under which poll() says that it is over.
  [[nodiscard]] virtual std::size_t start(const Message& message) = 0;
  /// Moves everything on, and appends what is over. Raises ExecutionError.
  virtual void poll(std::vector<std::size_t>& over) = 0;
  /// Until all ranks are here; raises ExecutionError where that takes longer. When the last one came, the same instant
  /// on all ranks, by this rank's host_clock().
  virtual std::int64_t barrier(Seconds time_out) = 0;
};

}  // namespace moeplan::runtime
