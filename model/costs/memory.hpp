// What a rank keeps in device memory.
#pragma once

#include <vector>

#include "model/base/quantity.hpp"
#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/degrees.hpp"
#include "model/workload/workload.hpp"

namespace moeplan {

/// Parameters of a part of the model on the rank that holds most of it: dense ones cut over tp, expert ones over ep and
/// esp.
struct UnitParameters {
  double dense = 0;
  double expert = 0;
  double copied = 0;  // of copies of experts: weights and gradients, no optimizer states, never shared out

  UnitParameters& operator+=(const UnitParameters& other);
  bool operator==(const UnitParameters&) const = default;
};
[[nodiscard]] UnitParameters layer_parameters(const ModelSpec& model, const LayerSpec& layer, const Degrees& degrees);
/// Embeddings, and what belongs to no layer.
[[nodiscard]] UnitParameters embedding_parameters(const ModelSpec& model, const Degrees& degrees);
[[nodiscard]] UnitParameters head_parameters(const ModelSpec& model, const Degrees& degrees);

/// fp32 values that the optimizer keeps for each parameter: Adam's two moments, SGD's momentum, and a master copy where
/// the weights are 16-bit.
[[nodiscard]] std::int64_t optimizer_states(const Workload& workload);

struct MemoryUse {
  Bytes weights;          // ZeRO stage 3: shared out over the replicas, and the largest layer whole
  Bytes gradients;        // fp32, in training; ZeRO stages 2 and 3: shared out
  Bytes optimizer;        // ZeRO stages 1 to 3: shared out over the replicas
  Bytes activations;      // kept from forward to backward, of all microbatches in between
  Bytes working;          // every other buffer of the largest block, dispatch buffers included: an upper estimate
  Bytes runtime;          // reserve besides all tensors: GpuSpec::runtime_memory
  std::size_t stage = 0;  // pipeline stage

  [[nodiscard]] Bytes total() const { return weights + gradients + optimizer + activations + working + runtime; }
};

/// What a pipeline stage holds, and its largest single layer.
struct StageParameters {
  UnitParameters all;
  UnitParameters largest;
};

/// Weights, gradients and states alone: a lower bound that needs no Program.
[[nodiscard]] MemoryUse state_memory(const StageParameters& stage, const Workload& workload, const Degrees& degrees);

/// Of the rank that needs most, by stage. Activations follow from the Program: what forward blocks write and their
/// backward blocks read before writing, at the moment at which most of it is kept. Every family of groups of several
/// ranks that operations communicate over is a communicator of a rank.
[[nodiscard]] MemoryUse memory_use(const Program& program, const std::vector<StageParameters>& stages,
                                   const Workload& workload, const Degrees& degrees, const RuntimeMemory& runtime = {});

}  // namespace moeplan
