// A flag set by the signals that ask a program to end, for work that must shut down cleanly.
#pragma once

#include <atomic>

namespace moeplan {

/// After construction, the first SIGINT, SIGTERM, SIGHUP or SIGQUIT sets the flag; a second one ends the process as
/// usual. Signals that are ignored stay so (nohup).
class Interrupt {
 public:
  Interrupt();
  [[nodiscard]] const std::atomic<bool>& flag() const;
};

}  // namespace moeplan
