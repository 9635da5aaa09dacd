// The layout of pipeline stages: which layers and parameters each of them holds.
#pragma once

#include <cstdint>
#include <vector>

#include "model/costs/memory.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/degrees.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// A contiguous range of the model's layers.
struct StagePart {
  std::vector<LayerSpec> layers;
  bool embedding = false;  // only in the first part
  bool head = false;       // only in the last part
  /// Multi-token-prediction layers ([DeepSeek-V3] sec. 2.2), after `layers`: each has a projection of two hidden states
  /// into one, a layer like the model's last one, and the output head.
  std::int64_t mtp_layers = 0;
};

/// The model as one part, with all of its layers of multi-token prediction.
[[nodiscard]] StagePart whole_model(const ModelSpec& model);

/// The model divided into `parts` <= num_layers parts of at least one layer each so that the largest forward FLOPs of a
/// part are minimal. Ties: the division whose later parts are fullest, since the first stages keep the most
/// microbatches. The last part has `mtp_layers`.
[[nodiscard]] std::vector<StagePart> stage_parts(const ModelSpec& model, std::int64_t sequence_length,
                                                 std::int64_t parts, std::int64_t mtp_layers = 0);
/// The parts of a candidate: those of its layout, or else those of stage_parts() above; in a V, with which the two
/// parts of a stage together have the least largest FLOPs, and of these cuts the one with the least largest part.
[[nodiscard]] std::vector<StagePart> stage_parts(const ModelSpec& model, const Workload& workload,
                                                 const Candidate& candidate);

/// The layers of multi-token prediction that a candidate trains along: its layout's, or else the workload's.
[[nodiscard]] std::int64_t mtp_layers_of(const Workload& workload, const Candidate& candidate);

/// The parameters that each stage holds if the model is divided for these degrees.
[[nodiscard]] std::vector<StageParameters> stage_parameters(const ModelSpec& model, std::int64_t sequence_length,
                                                            const Degrees& degrees, std::int64_t virtual_stages);
/// The same for a candidate with its layout and its expert placements: for each stage, the rank whose weights,
/// gradients and states need most memory over all of the stage's layers.
[[nodiscard]] std::vector<StageParameters> stage_parameters(const ModelSpec& model, const Workload& workload,
                                                            const Candidate& candidate);

/// The parameters of one MoE layer by rank of the placement. `layer` are the layer's parameters with contiguous
/// experts.
[[nodiscard]] std::vector<UnitParameters> placed_parameters(const UnitParameters& layer, const Moe& moe,
                                                            const Placement& placement, std::int64_t ep);

/// The index of each MoE layer's kind of routing, in layer order. Equal layers share a kind, except with a recorded
/// routing, where every layer has its own.
[[nodiscard]] std::vector<std::size_t> routing_kinds(const ModelSpec& model, bool is_recorded);
[[nodiscard]] std::int64_t number_of_routing_kinds(const ModelSpec& model, bool is_recorded);
/// The MoE layers of a model in order.
[[nodiscard]] std::vector<Moe> moe_layers(const ModelSpec& model);

}  // namespace moeplan::planner
