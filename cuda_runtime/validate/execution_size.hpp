// Lower bounds of the memory and time that executing a layer needs, by which oversized layers are refused before ranks
// are started.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cuda_runtime/layer_reference.hpp"
#include "model/base/quantity.hpp"
#include "planner/plan/layer_case.hpp"

namespace moeplan::validate {

/// Lower bounds for all ranks together.
struct ExecutionSize {
  Bytes buffers;    // of the Program, each with the largest extent that an operation uses
  Bytes reference;  // weights and gradients that the reference layer stores on every rank, if it computes all tokens
  double flops;     // of the products in one execution

  [[nodiscard]] Bytes memory() const { return buffers + reference; }
};
/// `most_reference_flops`: of the reference on a rank; above it only some tokens are compared.
[[nodiscard]] ExecutionSize execution_size(const planner::LayerCase& layer,
                                           double most_reference_flops = runtime::kMostReferenceFlops);

/// The resources of one host.
struct HostCapacity {
  Bytes memory;        // available
  std::int64_t cores;  // for products
  Seconds limit;       // time after which ranks are terminated
  double runs;         // executions that must fit into `limit`: values, warm-ups, timed ones
  double most_reference_flops = runtime::kMostReferenceFlops;
};

/// Upper bound of one core's fp32 FLOP/s. assumed: two 512-bit FMA units at 3.1 GHz.
inline constexpr double kMostFlopsOfCore = 200e9;

/// The reason why the layer cannot be executed on this host, with figures; none if it may be possible.
[[nodiscard]] std::optional<std::string> why_too_large(const planner::LayerCase& layer, const HostCapacity& host);

/// The memory available to new processes: the kernel's estimate, within the limit of this control group. None if the
/// system does not report it.
[[nodiscard]] std::optional<Bytes> available_memory();

}  // namespace moeplan::validate
