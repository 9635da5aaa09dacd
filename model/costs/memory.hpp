// Device memory requirements of a rank.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/quantity.hpp"
#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/degrees.hpp"
#include "model/workload/workload.hpp"

namespace moeplan {

/// Suffix of the names of buffers that hold other ranks' weights, or the gradients of those weights, while a layer is
/// computed.
inline constexpr std::string_view kGatheredWeights = ".gathered";

/// Suffix of the names of buffers that hold an optimizer's 16-bit moments in fp32 while weights are updated: no states.
inline constexpr std::string_view kMomentsInFp32 = "moments.fp32";

/// Parameters of a part of the model on the rank that holds the most: dense ones sharded over tp, expert ones over ep
/// and esp.
struct UnitParameters {
  double dense = 0;
  double expert = 0;
  double copied = 0;  // of copies of experts: weights and gradients, no optimizer states, never sharded by ZeRO

  UnitParameters& operator+=(const UnitParameters& other) {
    dense += other.dense;
    expert += other.expert;
    copied += other.copied;
    return *this;
  }
  bool operator==(const UnitParameters&) const = default;
};
[[nodiscard]] UnitParameters layer_parameters(const ModelSpec& model, const LayerSpec& layer, const Degrees& degrees);
/// Parameters of the embeddings, and those that belong to no layer.
[[nodiscard]] UnitParameters embedding_parameters(const ModelSpec& model, const Degrees& degrees);
/// Of the output head. A head that is tied to the embedding has a copy of it on another pipeline stage.
[[nodiscard]] UnitParameters head_parameters(const ModelSpec& model, const Degrees& degrees, bool has_embedding);
/// Parameters of a multi-token-prediction layer in addition to those of a layer: two norms, and the projection of the
/// normed hidden state and embedding into one hidden state ([DeepSeek-V3] eq. 21).
[[nodiscard]] UnitParameters mtp_input_parameters(const ModelSpec& model, const Degrees& degrees);

struct MemoryUse {
  /// ZeRO stage 3: sharded over the replicas, and the largest layer gathered twice, since the next layer is gathered
  /// while one computes; or three times (copies_gathered()): in use, and two buffers into which layers are gathered.
  Bytes weights;
  /// In the workload's gradient_dtype, in training; ZeRO stages 2 and 3: sharded; stage 3: and the largest layer's
  /// before they are reduced, with copies_gathered() also as its products write them. With keeps_gradients() also one
  /// of each shape as the framework hands it on, although products have added to the buffer (Transformer Engine's
  /// get_dummy_wgrad, Megatron-Core's linear layers).
  Bytes gradients;
  Bytes optimizer;        // ZeRO stages 1 to 3: sharded over the replicas; zero in host memory (Offload)
  Bytes activations;      // kept from forward to backward, of all microbatches in flight
  Bytes working;          // all further buffers in use when most bytes are, and the workspaces of libraries
  Bytes runtime;          // reserve in addition to all tensors: GpuSpec::runtime_memory
  Bytes host;             // activations and states in the memory of the GPU's host, at most (Offload)
  std::size_t stage = 0;  // pipeline stage
  Bytes fragments = {};   // of `runtime`: what the allocator holds between tensors

  [[nodiscard]] Bytes total() const { return allocated() + runtime; }
  /// What a framework's allocator counts.
  [[nodiscard]] Bytes allocated() const { return weights + gradients + optimizer + activations + working; }
  /// And what it has taken from the device.
  [[nodiscard]] Bytes reserved() const { return allocated() + fragments; }
};

/// The parameters of a pipeline stage, and of its largest single layer.
struct StageParameters {
  UnitParameters all;
  UnitParameters largest;
};

/// Memory of weights, gradients and optimizer states only: a lower bound that needs no Program.
[[nodiscard]] MemoryUse state_memory(const StageParameters& stage, const Workload& workload, const Degrees& degrees);

/// Memory of each stage's rank that needs the most, by stage. Activations are derived from the Program: the buffers
/// that forward blocks write and their backward blocks read before writing, at the moment when most of them are live.
/// Every family of groups of several ranks that operations communicate over counts as one communicator per rank.
/// With `ranks`, only these ranks of a stage are counted: a lower bound.
[[nodiscard]] std::vector<MemoryUse> memory_by_stage(const Program& program, const std::vector<StageParameters>& stages,
                                                     const Workload& workload, const Degrees& degrees,
                                                     const RuntimeMemory& runtime = {}, std::vector<RankId> ranks = {});
/// A buffer that is in use when a stage's rank has most bytes in use beyond weights, gradients and states.
struct BufferUse {
  std::string block, buffer;  // names
  Bytes bytes;                // of one
  std::int64_t count;         // layers and microbatches that have one, each kept for its backward block; or 1

  [[nodiscard]] Bytes all() const { return bytes * static_cast<double>(count); }
};
/// The buffers in use at the peak of a stage's rank that needs the most, by block. Their bytes are activations and
/// working buffers together.
[[nodiscard]] std::vector<BufferUse> buffers_at_peak(const Program& program, std::size_t stage);

/// The same of the stage that needs the most, the first of equal ones.
[[nodiscard]] MemoryUse memory_use(const Program& program, const std::vector<StageParameters>& stages,
                                   const Workload& workload, const Degrees& degrees, const RuntimeMemory& runtime = {});

/// The buffers that a block reads before it writes them: of a backward block, those that its forward block keeps, if it
/// writes them.
[[nodiscard]] std::set<BufferId> read_first(const Block& block);

}  // namespace moeplan
