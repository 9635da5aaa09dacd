// The search for the best strategy of an MoE layer on given degrees: the full product of schedules, all-to-alls,
// numbers of chunks and codecs, each simulated for the layer alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/sim_time.hpp"
#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"
#include "planner/frameworks/framework.hpp"

namespace moeplan::planner {

/// The choices that the user fixed; absent ones are searched.
struct LayerSpace {
  std::optional<BuiltIn<Schedule>> schedule = {};
  std::optional<BuiltIn<AllToAll>> all_to_all = {};
  std::optional<CodecPair> codec = {};
  std::optional<std::int64_t> pipeline_degree = {};
  const Framework* framework = nullptr;  // only what it runs
};

/// All strategies that pass layer_infeasibility() on the degrees of `candidate`. Codecs are those that the workload
/// allows, the same for dispatch and combine or on one of the two only. Numbers of chunks are
/// Schedule::pipeline_degrees().
[[nodiscard]] std::vector<LayerStrategy> layer_strategies(std::int64_t hidden_size, const Workload& workload,
                                                          const Candidate& candidate, std::int64_t ranks_per_node,
                                                          const LayerSpace& space = {});

/// A strategy with its simulated time.
struct PricedStrategy {
  LayerStrategy run;
  SimTime time;  // forward and, in training, backward
};

/// Simulates each of these strategies; the result is sorted fastest first (ties: input order). `tokens` is the number
/// of rows on every rank, as in lower_moe_layer(); the cluster has a GPU for every rank of the candidate's single
/// stage.
[[nodiscard]] std::vector<PricedStrategy> priced_strategies(const std::vector<LayerStrategy>& runs, const Moe& moe,
                                                            std::int64_t hidden_size, std::int64_t tokens,
                                                            const Workload& workload, const Candidate& candidate,
                                                            const Cluster& cluster, int threads);

/// The input of a search over a layer's strategies. The referenced objects must outlive it.
struct LayerProblem {
  const Moe& moe;
  std::int64_t hidden_size;
  std::int64_t tokens;  // as in priced_strategies()
  const Workload& workload;
  const Candidate& candidate;
  const Cluster& cluster;
  /// With at least this many ranks, strategies under which ranks differ are bounded, not simulated.
  std::int64_t asymmetric_rank_threshold = 64;
  std::size_t kind = 0;  // kind of routing
};

/// The problem for the MoE layers of one kind in a stage of a candidate: `stage` is stage_alone().
[[nodiscard]] LayerProblem layer_problem(const ModelSpec& model, const Workload& workload, const Moe& moe,
                                         const Candidate& stage, const Cluster& cluster,
                                         std::int64_t asymmetric_rank_threshold, std::size_t kind = 0);

/// The result of fastest_strategies().
struct FastestStrategies {
  std::vector<PricedStrategy> fastest;  // fastest first (ties: input order); at most as many as requested
  std::int64_t estimated = 0;           // strategies whose own bound was computed
  std::int64_t simulated = 0;
  /// Strategies that might be faster than the last of `fastest` but take too long to simulate because their ranks
  /// differ.
  std::int64_t undecided = 0;
};

/// The `count` fastest of these strategies, without simulating all of them: a strategy is ruled out if a lower bound on
/// its time is above the times of `count` others. The bound is its own, or that of the same strategy with codecs that
/// are never slower. The result does not depend on `threads`.
[[nodiscard]] FastestStrategies fastest_strategies(const std::vector<LayerStrategy>& runs, const LayerProblem& layer,
                                                   std::size_t count, int threads);

}  // namespace moeplan::planner
