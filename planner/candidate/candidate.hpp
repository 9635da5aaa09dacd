// One way to run a model: everything that the planner decides.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/workload/degrees.hpp"
#include "model/workload/workload.hpp"
#include "planner/placement/placement.hpp"

namespace moeplan::planner {

inline constexpr const char* kListedOrder = "listed";
inline constexpr const char* kSearchedOrder = "searched";

inline constexpr std::int64_t kMostRedundantExperts = 1024;  // a rank; far more than fit

inline constexpr std::int64_t kMostChunks = 64;  // of a microbatch inside an MoE layer; [Tutel] goes to 8
/// Orders of the parallel axes over consecutive ranks, the fastest first, as Megatron-LM's RankGenerator writes them:
/// ep and, for the experts, dp are those of the experts (tp being esp), for the dense part ep is left out.
inline constexpr const char* kMegatronRankOrder = "tp-cp-ep-dp-pp";
inline constexpr const char* kReplicasInnerRankOrder = "tp-cp-dp-ep-pp";  // replicas of an expert are neighbours

struct Candidate;

/// One way to run an MoE layer.
struct LayerStrategy {
  std::string schedule;
  std::string all_to_all;
  std::int64_t pipeline_degree = 1;
  std::string codec = "none";
  bool operator==(const LayerStrategy&) const = default;

  /// How the candidate runs most of its MoE layers, or those of one kind (routing_kinds()).
  [[nodiscard]] static LayerStrategy of(const Candidate& candidate);
  [[nodiscard]] static LayerStrategy of(const Candidate& candidate, std::size_t kind);
  /// The candidate that runs all its MoE layers so.
  [[nodiscard]] Candidate in(Candidate candidate) const;
};

struct Candidate {
  Degrees degrees;
  std::string schedule = "baseline";  // of the MoE layers, a name of planner/schedule.hpp
  std::string all_to_all = "linear";  // every pair at once
  std::int64_t pipeline_degree = 1;   // parts that a microbatch's tokens are cut into inside an MoE layer
  std::string codec = "none";
  std::vector<LayerStrategy> runs =
      {};  // by kind of routing (routing_kinds()), where layers of different kinds run differently
  std::string placement = kContiguous;  // of the experts: a strategy of planner/placement/strategy.hpp
  std::int64_t redundant_experts = 0;   // slots a rank beyond its share of the experts, that the strategy may fill
  std::vector<Placement> expert_places = {};  // by kind of routing (routing_kinds()), ranks being positions in the
                                              // expert-parallel group; empty: contiguous
  std::string rank_order = kMegatronRankOrder;
  std::string order = kListedOrder;       // of a block's operations; the other one is kSearchedOrder (lowered.hpp)
  std::int64_t micro_batch = 1;           // sequences
  std::int64_t virtual_stages = 1;        // parts of the model on each pipeline stage; > 1: interleaved
  bool sequence_parallel = false;         // between attention and FFN each tensor-parallel rank keeps its own tokens
  Recompute recompute = Recompute::None;  // where the workload leaves it open (auto); else as that says
  bool operator==(const Candidate&) const = default;
};

/// "14 x opt_sche 2dh 2 none, 10 x baseline linear 1 none": kinds that run alike, in order of first use; "" of none.
[[nodiscard]] std::string strategies_text(const std::vector<LayerStrategy>& runs);

/// The candidate without its pipeline: what each of its stages does.
[[nodiscard]] inline Candidate stage_alone(Candidate candidate) {
  candidate.degrees.pp = 1;
  candidate.virtual_stages = 1;
  return candidate;
}

}  // namespace moeplan::planner
