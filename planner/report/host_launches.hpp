// What launches by the host cost a plan, and what CUDA graphs would save of it.
#pragma once

#include "model/machine/cluster.hpp"
#include "model/workload/cuda_graphs.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/frameworks/framework.hpp"
#include "planner/plan/inputs.hpp"

namespace moeplan::planner {

/// The fraction of the critical path in which the GPU waits for its host to launch operations.
[[nodiscard]] double host_share(const Prediction& prediction, const Cluster& cluster);

/// The workload's CUDA graphs, and every other module that can be captured: the model has it, the routing does not
/// change its shapes, and the framework (null: any) captures it.
[[nodiscard]] CudaGraphs most_graphs(const Inputs& inputs, const Framework* framework);

struct StepTime {
  Seconds time;
  bool is_simulated;
};
/// The step time of a candidate whose workload has these graphs instead. Of ranks that differ, and are so many that a
/// simulation takes seconds, in proportion to closed forms. These were 0.3 to 4.3% below the simulations without graphs
/// and 2.0 to 5.5% with them (qwen3_30b, skewed, 32 to 1,024 GPUs).
[[nodiscard]] StepTime step_with_graphs(const Inputs& inputs, const Cluster& cluster, const Candidate& candidate,
                                        const Prediction& without, const CudaGraphs& graphs);

}  // namespace moeplan::planner
