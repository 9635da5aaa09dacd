// The prediction of one candidate in full: its Program, memory, closed form, simulated Timeline and throughput.
#pragma once

#include "model/analysis/analysis.hpp"
#include "model/analysis/timeline.hpp"
#include "model/costs/estimate.hpp"
#include "model/costs/memory.hpp"
#include "model/costs/stage_clusters.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// One stage is simulated as it is, several by their segments (sim/simulate_stages.hpp).
[[nodiscard]] Timeline simulated(const Program& program, StageClusters& machines, bool keep_spans);

/// What an iteration of the candidate holds on its fullest rank: what every check of memory asks.
[[nodiscard]] MemoryUse iteration_memory(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                         const Candidate& candidate, const Program& program);

/// What a time of an iteration means for a model on a machine.
struct Throughput {
  double tokens_per_s_per_gpu;
  double model_flops_utilization;  // the model's own FLOPs over what all GPUs' peaks could have done meanwhile
};
[[nodiscard]] Throughput throughput(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                    SimTime makespan);

/// What a candidate is predicted to do, in full.
struct Prediction {
  SimTime makespan;
  Estimate estimate;
  MemoryUse memory;
  RankTime binding;  // of the binding rank
  double tokens_per_s_per_gpu = 0;
  double model_flops_utilization = 0;
  Program program;
  Timeline timeline;
};
[[nodiscard]] Prediction predict(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                 const Candidate& candidate);

}  // namespace moeplan::planner
