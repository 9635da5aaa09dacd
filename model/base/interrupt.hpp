// A flag set by SIGINT and SIGTERM, for work that must shut down cleanly.
#pragma once

#include <atomic>

namespace moeplan {

/// After construction, the first SIGINT or SIGTERM sets the flag; a second one ends the process as usual.
class Interrupt {
 public:
  Interrupt();
  [[nodiscard]] const std::atomic<bool>& flag() const;
};

}  // namespace moeplan
