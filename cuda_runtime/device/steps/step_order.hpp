// The steps of an execution, and the least synchronisation between streams that keeps their order.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "model/program/program.hpp"

namespace moeplan::runtime {

/// One operation on a stream, after the operations before it there and those in `after`.
struct DeviceStep {
  std::size_t operation;
  Stream stream;
  std::vector<std::size_t> after;
  bool operator==(const DeviceStep&) const = default;
};

/// What a step needs besides the order of its own stream. All members are indices of steps.
struct StepOrder {
  std::vector<std::size_t> waits;       // ends on other streams to wait for
  std::optional<std::size_t> previous;  // the step before it on its stream
  bool is_awaited = false;              // whether a step on another stream, or the end of the execution, waits for it
};

/// The orders of the steps, each executed once. A wait is left out if it follows from the order of the stream and from
/// earlier waits: with vector clocks, O(steps x (streams + waits)).
[[nodiscard]] std::vector<StepOrder> step_orders(std::span<const DeviceStep> steps);

}  // namespace moeplan::runtime
