// What the host CPU launches in training: the operations of a block that no CUDA graph captures.
#pragma once

#include <cstdint>

#include "model/program/program.hpp"
#include "model/workload/cuda_graphs.hpp"

namespace moeplan::planner {

/// The number of a block's operations that the host launches one by one. Waits need no launch, and casts are launched
/// with the product that they are for. A captured module includes the tensor- and context-parallel traffic of its
/// layer, but no traffic of replicas or between stages, which only the graph of a whole iteration contains.
[[nodiscard]] std::int64_t launched_operations(const Block& block, const CudaGraphs& graphs);

/// The number of weight tensors on a rank whose gradients a backward block computes; of each expert's weights, one a
/// local expert.
[[nodiscard]] std::int64_t updated_tensors(const Program& program, const Block& backward);

/// The host's work that launches this many operations.
[[nodiscard]] Operation launches(std::int64_t operations);

}  // namespace moeplan::planner
