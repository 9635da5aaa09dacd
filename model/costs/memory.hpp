// What a rank keeps in device memory.
#pragma once

#include "model/base/quantity.hpp"
#include "model/program/program.hpp"
#include "model/specs/degrees.hpp"
#include "model/specs/model_spec.hpp"
#include "model/specs/workload.hpp"

namespace moeplan {

/// Parameters on the rank that holds most: dense ones cut over tp, expert ones over ep and esp.
struct RankParameters {
  double dense;
  double expert;
};
[[nodiscard]] RankParameters rank_parameters(const ModelSpec& model, const Degrees& degrees);

/// fp32 values that the optimizer keeps for each parameter: Adam's two moments, SGD's momentum, and a master copy where
/// the weights are 16-bit.
[[nodiscard]] std::int64_t optimizer_states(const Workload& workload);

struct MemoryUse {
  Bytes weights;
  Bytes gradients;    // fp32, in training
  Bytes optimizer;    // ZeRO stage 1: shared out over the replicas
  Bytes activations;  // kept from forward to backward, of one microbatch
  Bytes working;      // every other buffer of the largest block, dispatch buffers included: an upper estimate

  [[nodiscard]] Bytes total() const { return weights + gradients + optimizer + activations + working; }
};

/// Of the rank that needs most. Activations follow from the Program: what forward blocks write and their backward
/// blocks read before writing, once for each run in a microbatch. `microbatches` is how often the iteration repeats the
/// model.
[[nodiscard]] MemoryUse memory_use(const Program& program, const ModelSpec& model, const Workload& workload,
                                   const Degrees& degrees, std::int64_t microbatches);

/// The same without a Program and its activations: a lower bound that needs no lowering.
[[nodiscard]] MemoryUse state_memory(const ModelSpec& model, const Workload& workload, const Degrees& degrees);

}  // namespace moeplan
