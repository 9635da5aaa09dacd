// Which layers stand on which pipeline stage, and in which order a stage works through its microbatches.
#pragma once

#include <cstdint>
#include <vector>

#include "model/costs/memory.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/degrees.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// A contiguous part of the model.
struct StagePart {
  std::vector<LayerSpec> layers;
  bool embedding = false;  // the first part
  bool head = false;       // the last one
};

/// The model cut into `parts` <= num_layers parts, at least one layer each, such that the largest forward FLOPs of a
/// part are least; among such cuts the one whose later parts are the fullest, since the first stages keep the most
/// microbatches.
[[nodiscard]] std::vector<StagePart> stage_parts(const ModelSpec& model, std::int64_t sequence_length,
                                                 std::int64_t parts);

/// What each stage holds of the model cut for these degrees.
[[nodiscard]] std::vector<StageParameters> stage_parameters(const ModelSpec& model, std::int64_t sequence_length,
                                                            const Degrees& degrees, std::int64_t virtual_stages);
/// The same of a candidate, its placed experts as they are placed: of each stage's rank whose weights, gradients and
/// states need most memory over all of the stage's layers.
[[nodiscard]] std::vector<StageParameters> stage_parameters(const ModelSpec& model, const Workload& workload,
                                                            const Candidate& candidate);

/// Of a layer of `moe` experts, whose parameters are `layer` where they are not placed, by rank of the placement.
[[nodiscard]] std::vector<UnitParameters> placed_parameters(const UnitParameters& layer, const Moe& moe,
                                                            const Placement& placement, std::int64_t ep);

/// Every MoE layer's number among the kinds of routing, in order of the layers: equal layers share one, but for those
/// of a recorded routing.
[[nodiscard]] std::vector<std::size_t> routing_kinds(const ModelSpec& model, bool is_recorded);
[[nodiscard]] std::int64_t number_of_routing_kinds(const ModelSpec& model, bool is_recorded);
/// The MoE layers of a model, in order.
[[nodiscard]] std::vector<Moe> moe_layers(const ModelSpec& model);

/// A forward or backward pass of one microbatch through one of the stage's parts.
struct PipelineTask {
  bool forward;
  std::int64_t part;  // of this stage, 0 .. virtual_stages - 1
  std::int64_t microbatch;
  bool operator==(const PipelineTask&) const = default;
};

/// What a stage does in training: 1F1B ([PipeDream-Flush], D. Narayanan et al., "Efficient large-scale language model
/// training on GPU clusters", SC'21, sec. 2.2), with virtual_stages > 1 interleaved as in Megatron-LM; microbatches are
/// then a multiple of the stages. Without backward: all forward passes in the same order.
[[nodiscard]] std::vector<PipelineTask> pipeline_tasks(std::int64_t stages, std::int64_t stage,
                                                       std::int64_t virtual_stages, std::int64_t microbatches,
                                                       bool train);

}  // namespace moeplan::planner
