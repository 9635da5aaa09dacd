// The full prediction for one candidate: its Program, memory, closed form, simulated Timeline and throughput.
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

/// The Timeline of a Program. A single stage is simulated directly, several stages by their segments
/// (sim/simulate_stages.hpp).
[[nodiscard]] Timeline simulated(const Program& program, StageClusters& machines, bool keep_spans);

/// The memory that an iteration of the candidate needs on its fullest rank. Every memory check uses this function.
[[nodiscard]] MemoryUse iteration_memory(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                         const Candidate& candidate, const Program& program);

/// The throughput that an iteration time corresponds to.
struct Throughput {
  double tokens_per_s_per_gpu;
  double model_flops_utilization;  // model FLOPs divided by what the peaks of all GPUs allow in the makespan
};
[[nodiscard]] Throughput throughput(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                    SimTime makespan);

/// Everything that is predicted for a candidate.
struct Prediction {
  SimTime makespan;
  Estimate estimate;
  MemoryUse memory;
  RankTime binding;  // time breakdown of the binding rank
  double tokens_per_s_per_gpu = 0;
  double model_flops_utilization = 0;
  Program program;
  Timeline timeline;
};
[[nodiscard]] Prediction predict(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                 const Candidate& candidate);

}  // namespace moeplan::planner
