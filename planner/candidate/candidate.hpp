// A candidate: everything that the planner decides about running a model.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/costs/codec.hpp"
#include "model/text/reader.hpp"
#include "model/workload/degrees.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/built_in.hpp"
#include "planner/candidate/pipeline_layout.hpp"
#include "planner/placement/placement.hpp"
#include "planner/placement/strategies/placement_choice.hpp"

namespace moeplan::planner {

/// The order of the operations in a block: as the schedule lists them, or found by a search
/// (planner/lowering/ordered.hpp).
enum class OperationOrder { Listed, Searched };
inline constexpr std::array<std::pair<OperationOrder, std::string_view>, 2> kOperationOrderNames{
    {{OperationOrder::Listed, "listed"}, {OperationOrder::Searched, "searched"}}};

inline constexpr std::int64_t kMostRedundantExperts = 1024;  // per rank; far more than fit

inline constexpr std::int64_t kMostChunks = 64;           // per microbatch inside an MoE layer; [Tutel] goes to 8
inline constexpr std::int64_t kMostDispatcherSms = 1024;  // more than any GPU has
/// The order of the parallel axes over consecutive ranks, fastest-varying first, in the notation of Megatron-LM's
/// RankGenerator. For the experts, tp means esp, and ep and dp are the experts' groups; for the dense part ep is
/// omitted. ReplicasInner: replicas of an expert are neighbours.
enum class RankOrder { Megatron, ReplicasInner };
inline constexpr std::array<std::pair<RankOrder, std::string_view>, 2> kRankOrderNames{
    {{RankOrder::Megatron, "tp-cp-ep-dp-pp"}, {RankOrder::ReplicasInner, "tp-cp-dp-ep-pp"}}};

/// Which parts of the model a pipeline's stages hold. Interleaved: with p stages, stage s has the parts s, s + p, s +
/// 2p and so on. V: each has two, s and 2p - 1 - s, so that the first one holds embedding and output head, and stages
/// keep fewer activations ("cut in half" DualPipe: DualPipeV).
enum class PipelineShape { Interleaved, V };
inline constexpr std::array<std::pair<PipelineShape, std::string_view>, 2> kPipelineShapeNames{
    {{PipelineShape::Interleaved, "interleaved"}, {PipelineShape::V, "v"}}};
inline constexpr std::int64_t kPartsOfV = 2;  // virtual stages of a V

[[nodiscard]] std::string name_of(OperationOrder order);
[[nodiscard]] std::string name_of(RankOrder order);
[[nodiscard]] std::string name_of(PipelineShape shape);

struct Candidate;

/// A strategy for running an MoE layer.
struct LayerStrategy {
  BuiltIn<Schedule> schedule = "baseline";
  BuiltIn<AllToAll> all_to_all = "linear";
  std::int64_t pipeline_degree = 1;
  CodecPair codec = {};
  bool operator==(const LayerStrategy&) const = default;

  /// The strategy of most of the candidate's MoE layers, or of those of one kind (routing_kinds()).
  [[nodiscard]] static LayerStrategy of(const Candidate& candidate);
  [[nodiscard]] static LayerStrategy of(const Candidate& candidate, std::size_t kind);
  /// The candidate with this strategy in all its MoE layers.
  [[nodiscard]] Candidate in(Candidate candidate) const;
};

/// Degrees, strategies, placement and order of one plan.
struct Candidate {
  Degrees degrees;
  BuiltIn<Schedule> schedule = "baseline";  // of the MoE layers
  BuiltIn<AllToAll> all_to_all = "linear";  // of the MoE layers
  std::int64_t pipeline_degree = 1;         // chunks that a microbatch's tokens are cut into inside an MoE layer
  CodecPair codec = {};
  std::int64_t dispatcher_sms = 0;  // that an all-to-all's own kernels hold; 0: as many as their figures say
  /// Strategies by kind of routing (routing_kinds()), where layers of different kinds use different ones.
  std::vector<LayerStrategy> runs = {};
  PlacementChoice placement = kContiguous;
  std::int64_t redundant_experts = 0;  // slots per rank beyond an equal division of the experts
  /// Placements by kind of routing (routing_kinds()); their ranks are positions in the expert-parallel group. Empty:
  /// contiguous.
  std::vector<Placement> expert_places = {};
  RankOrder rank_order = RankOrder::Megatron;
  OperationOrder order = OperationOrder::Listed;
  std::int64_t micro_batch = 1;     // in sequences
  std::int64_t virtual_stages = 1;  // parts of the model on each pipeline stage
  PipelineShape pipeline = PipelineShape::Interleaved;
  PipelineLayout layout = {};             // what each part holds; empty: divided evenly by FLOPs
  bool sequence_parallel = false;         // between attention and FFN each tensor-parallel rank keeps its own tokens
  bool ep_overlap = false;                // exchanges of tokens overlap computation of a neighbouring microbatch
  bool delays_weight_gradients = false;   // with ep_overlap: they run beside the exchange that would wait for them
  Recompute recompute = Recompute::None;  // chosen if the workload's is auto, otherwise equal to it
  bool operator==(const Candidate&) const = default;
};

/// "opt_sche 2dh 2 none": schedule, all-to-all, pipeline degree and codec.
[[nodiscard]] std::string strategy_text(const LayerStrategy& run);
/// "14 x opt_sche 2dh 2 none, 10 x baseline linear 1 none": kinds with equal strategies together, in order of first
/// use; "" if there are none.
[[nodiscard]] std::string strategies_text(const std::vector<LayerStrategy>& runs);

/// The candidate with its microbatches one after the other.
[[nodiscard]] inline Candidate in_turn(Candidate candidate) {
  candidate.ep_overlap = candidate.delays_weight_gradients = false;
  return candidate;
}

/// The candidate without its pipeline, and with its microbatches one after the other: the decisions for the layers of
/// each of its stages.
[[nodiscard]] inline Candidate stage_alone(Candidate candidate) {
  candidate.degrees.pp = 1;
  candidate.virtual_stages = 1;
  candidate.pipeline = PipelineShape::Interleaved;
  candidate.layout = {};
  return in_turn(std::move(candidate));
}

}  // namespace moeplan::planner
