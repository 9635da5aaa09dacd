// The time of a collective, and how it comes about.
#pragma once

#include <string>
#include <string_view>

#include "model/base/quantity.hpp"

namespace moeplan {

/// The time of a collective, and its parts.
struct CollectiveCost {
  Seconds total;          // the parts together; never less for more bytes, not even by rounding
  Seconds launch;         // of the kernel, and of the connections between nodes
  Seconds steps;          // latencies that the transfer does not hide
  Seconds transfer;       // bytes, own part and ramp
  std::string algorithm;  // "ring LL128", ...
  [[nodiscard]] Seconds time() const { return total; }
  /// "launch", "steps" or "transfer": the largest.
  [[nodiscard]] std::string_view bound() const {
    if (transfer >= steps && transfer >= launch) return "transfer";
    return steps >= launch ? "steps" : "launch";
  }
};

}  // namespace moeplan
