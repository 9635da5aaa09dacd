// What launches by the host cost a plan, and what CUDA graphs would save of it.
#pragma once

#include "model/machine/cluster.hpp"
#include "model/workload/cuda_graphs.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/frameworks/framework.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/search/search_result.hpp"

namespace moeplan::planner {

/// The fraction of the critical path in which the GPU waits for its host to launch operations.
[[nodiscard]] double host_share(const Prediction& prediction, const Cluster& cluster);

/// The workload's CUDA graphs, and every other module that can be captured: the model has it, the routing does not
/// change its shapes, and the framework (null: any) captures it.
[[nodiscard]] CudaGraphs most_graphs(const Inputs& inputs, const Framework* framework);

/// A candidate whose workload has other CUDA graphs.
struct WithGraphs {
  Candidate candidate;
  Seconds step;
  bool is_simulated = false;  // else a closed form, scaled as that of the best candidate without the graphs
};
/// The fastest of the first candidates of a search if its workload had these graphs: since launches weigh less, it may
/// be another one than without. The first, to which `best` belongs, is preferred to those that are less than 1% faster.
/// The fastest by closed form is simulated. Where ranks differ, which takes long to price, the first stands alone, and
/// is not simulated if that would take seconds. Closed forms were 0.3 to 4.3% below the simulations without graphs
/// and 2.0 to 5.5% with them (qwen3_30b, skewed, 32 to 1,024 GPUs).
[[nodiscard]] WithGraphs fastest_with_graphs(const Inputs& inputs, const Cluster& cluster, const SearchResult& found,
                                             const Prediction& best, const CudaGraphs& graphs, int threads);

}  // namespace moeplan::planner
