// What executing a layer takes at least: what cannot fit is refused before ranks are started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/base/quantity.hpp"
#include "planner/plan/layer_case.hpp"

namespace moeplan::validate {

/// Lower bounds, of all ranks together.
struct ExecutionSize {
  Bytes buffers;    // of the Program, each as large as the largest part of it that an operation names
  Bytes reference;  // weights and gradients of the reference layer in double: every rank has those of all experts
  double flops;     // of the products in one run

  [[nodiscard]] Bytes memory() const { return buffers + reference; }
};
[[nodiscard]] ExecutionSize execution_size(const planner::LayerCase& layer);

/// What one machine offers.
struct HostCapacity {
  Bytes memory;        // that is available
  std::int64_t cores;  // that multiply
  Seconds limit;       // after which ranks are ended
  double runs;         // that fit into it at least: of values, warm-ups, timed ones
};

/// No core multiplies faster in fp32. assumed: two 512-bit FMA units at 3.1 GHz.
inline constexpr double kMostFlopsOfCore = 200e9;

/// Why the layer cannot be executed on such a machine, with figures; none where it may be.
[[nodiscard]] std::optional<std::string> why_too_large(const planner::LayerCase& layer, const HostCapacity& host);

/// The memory that new processes may take here: what the kernel calls available, within the limit of this control
/// group. None where the system does not say.
[[nodiscard]] std::optional<Bytes> available_memory();

}  // namespace moeplan::validate
