// How an MoE layer is best run on given degrees: the full product of schedules, all-to-alls, numbers of chunks and
// codecs, each simulated, the layer alone.
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

namespace moeplan::planner {

/// What the user fixed; what is absent is searched.
struct LayerSpace {
  std::optional<std::string> schedule = {}, all_to_all = {}, codec = {};
  std::optional<std::int64_t> pipeline_degree = {};
};

/// All ways that layer_infeasibility() lets through on the degrees of `candidate`. Codecs: those that the workload
/// allows, the same both ways or on one of them. Numbers of chunks: Schedule::pipeline_degrees().
[[nodiscard]] std::vector<LayerStrategy> layer_strategies(std::int64_t hidden_size, const Workload& workload,
                                                          const Candidate& candidate, std::int64_t ranks_per_node,
                                                          const LayerSpace& space = {});

struct PricedStrategy {
  LayerStrategy run;
  SimTime time;  // forward and, in training, backward
};

/// Each of these ways simulated, fastest first (ties: as listed). `tokens` rows on every rank, as lower_moe_layer() has
/// it; the cluster has a GPU for every rank of the candidate's one stage.
[[nodiscard]] std::vector<PricedStrategy> priced_strategies(const std::vector<LayerStrategy>& runs, const Moe& moe,
                                                            std::int64_t hidden_size, std::int64_t tokens,
                                                            const Workload& workload, const Candidate& candidate,
                                                            const Cluster& cluster, int threads);

/// The layer on a machine: what a search over its runs needs to know. The references outlive it.
struct LayerProblem {
  const Moe& moe;
  std::int64_t hidden_size;
  std::int64_t tokens;  // as priced_strategies() has it
  const Workload& workload;
  const Candidate& candidate;
  const Cluster& cluster;
  std::int64_t asymmetric_rank_threshold =
      64;                // from so many on, runs on which ranks differ are bounded, not simulated
  std::size_t kind = 0;  // of routing
};

/// The MoE layers of a kind as one stage of the candidate runs them: `stage` is stage_alone().
[[nodiscard]] LayerProblem layer_problem(const ModelSpec& model, const Workload& workload, const Moe& moe,
                                         const Candidate& stage, const Cluster& cluster,
                                         std::int64_t asymmetric_rank_threshold, std::size_t kind = 0);

struct FastestStrategies {
  std::vector<PricedStrategy> fastest;  // in order (ties: as listed), as many as asked for where there are so many
  std::int64_t estimated = 0;           // runs whose own bound was computed
  std::int64_t simulated = 0;
  /// Runs that might be faster than the last of `fastest`, but take too long to simulate: their ranks differ.
  std::int64_t undecided = 0;
};

/// The `count` fastest of these runs, without simulating all of them: a run is ruled out where a lower bound of it is
/// above the time of `count` others; the bound is its own, or that of the run with codecs that are never slower. The
/// result does not depend on `threads`.
[[nodiscard]] FastestStrategies fastest_strategies(const std::vector<LayerStrategy>& runs, const LayerProblem& layer,
                                                   std::size_t count, int threads);

}  // namespace moeplan::planner
