// SIGINT and SIGTERM as a flag, for work that wants to end in order.
#pragma once

#include <atomic>

namespace moeplan {

/// From construction on, the first of these signals sets the flag; a second one ends the process as usual.
class Interrupt {
 public:
  Interrupt();
  [[nodiscard]] const std::atomic<bool>& flag() const;
};

}  // namespace moeplan
