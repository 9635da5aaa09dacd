// What the host CPU launches in training: the operations of a block that no CUDA graph captures.
#pragma once

#include <cstdint>

#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"

namespace moeplan::planner {

/// The host's work that launches a block's operations one by one, in operations of a module with weights, of which a
/// kernel of PyTorch is a part; with PyTorch's own modules (Workload::pytorch_modules) all are. Waits need no launch,
/// and the scales of tensors are launched with their casts. A captured module includes the tensor- and context-parallel
/// traffic of its layer, but no traffic of replicas or between stages, which only the graph of a whole iteration
/// contains.
[[nodiscard]] std::int64_t launched_operations(const Block& block, const Workload& workload);
/// What these operations add at least to the work of a block that has others too.
[[nodiscard]] std::int64_t launched_at_least(const Block& block, const Workload& workload);

/// What the modules of a layer that are recomputed take in addition, in each direction: the host sets them up as
/// checkpoints, one operation each (assumed), unless a graph captures them.
[[nodiscard]] std::int64_t checkpoints(const ModelSpec& model, const LayerSpec& layer, const Recompute& recompute,
                                       const CudaGraphs& graphs);

/// What the optimizer launches for so many weight tensors: an operation each, or a kernel of PyTorch; nothing if the
/// whole iteration is a graph.
[[nodiscard]] std::int64_t launched_updates(std::int64_t tensors, const Workload& workload);

/// The number of weight tensors on a rank whose gradients a backward block computes; of each expert's weights, one a
/// local expert.
[[nodiscard]] std::int64_t updated_tensors(const Program& program, const Block& backward);

/// The host's work that launches this many operations.
[[nodiscard]] Operation launches(std::int64_t operations);

}  // namespace moeplan::planner
