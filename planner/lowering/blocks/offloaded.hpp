// Activations in host memory: what leaves the GPU in the forward pass through a layer and returns in its backward pass
// (Megatron-LM's --fine-grained-activation-offloading).
#pragma once

#include <vector>

#include "model/workload/offload.hpp"
#include "planner/layer/block_builder.hpp"

namespace moeplan::planner {

/// The rows of a module that a layer keeps for its backward pass. They leave and return together.
struct OffloadedModule {
  std::string name;
  std::vector<Slice> rows;
};

/// What the workload's `offload` moves of a layer with this forward and this backward pass, by module: the
/// buffers of each that are kept, so none that are recomputed.
[[nodiscard]] std::vector<OffloadedModule> offloaded(const Program& program, const Offload& offload,
                                                     const Block& forward, const Block& backward);

// Copies run beside a whole block and take the place of those of the layer before or after it, as if that were of the
// same kind: in the forward pass the rows of the layer before leave while this layer computes its own, and in the
// backward pass those of the next layer come back, each module's into the room that this layer's has left. So they take
// time where they take longer than the rest of the block, and in their own order they keep up with it. What the first
// layers of an iteration would copy for none is neglected, and what the last ones would have to wait for.

/// Copies the rows of the layer before to the host.
void copy_to_host(const std::vector<OffloadedModule>& modules, BlockBuilder& forward);
/// Begins a backward pass with rows that have come back during the layer before.
void begin_with_copies(const std::vector<OffloadedModule>& modules, BlockBuilder& backward);
/// Copies those of the next layer back, into buffers of their own.
void copy_from_host(const std::vector<OffloadedModule>& modules, BlockBuilder& backward);

}  // namespace moeplan::planner
