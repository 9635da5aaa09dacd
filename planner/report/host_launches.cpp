#include "planner/report/host_launches.hpp"

#include <algorithm>
#include <variant>
#include <vector>

#include "model/analysis/critical_path.hpp"
#include "model/base/in_parallel.hpp"

namespace moeplan::planner {

namespace {

bool has_dense_ffn(const ModelSpec& model) {
  const auto is_dense = [](const LayerSpec& layer) {
    const Ffn* ffn = std::get_if<Ffn>(&layer.ffn);
    return ffn && ffn->hidden_size > 0;
  };
  return std::any_of(model.layers.begin(), model.layers.end(), [&](const RepeatedLayers& layers) {
    return std::any_of(layers.pattern.begin(), layers.pattern.end(), is_dense);
  });
}

}  // namespace

double host_share(const Prediction& prediction, const Cluster& cluster) {
  SimTime host;
  const auto path = critical_path(prediction.program, prediction.timeline, cluster, PathDetail::Operations);
  for (const PathSegment& s : path)
    if (s.limited_by == Bottleneck::Host) host += SimTime::scaled(s.duration, s.times);
  return prediction.makespan > SimTime() ? host.seconds() / prediction.makespan.seconds() : 0;
}

CudaGraphs most_graphs(const Inputs& inputs, const Framework* framework) {
  CudaGraphs out = inputs.workload.cuda_graphs;
  if (out == CudaGraphs::FullIteration) return out;
  for (const auto& [module, name] : kGraphModuleNames) {
    if (module == GraphModule::Moe || (module == GraphModule::Mlp && !has_dense_ffn(inputs.model))) continue;
    if (!framework || framework->has(FrameworkDecision::GraphModules, name)) out.add(module);
  }
  return out;
}

WithGraphs fastest_with_graphs(const Inputs& inputs, const Cluster& cluster, const SearchResult& found,
                               const Prediction& best, const CudaGraphs& graphs, int threads) {
  constexpr std::size_t kMostCompared = 32;
  constexpr double kClearly = 0.99;
  constexpr std::int64_t kMostFlows = 500'000;  // assumed: a simulation with 1.4 million takes 5.3 s
  Workload workload = inputs.workload;
  workload.cuda_graphs = graphs;
  const Problem problem(inputs.model, workload, cluster);
  const bool differ = has_asymmetric_ranks(best.program, problem.stage_clusters());
  const double simulated_per_closed_form = best.makespan.seconds() / best.estimate.closed_form;
  std::vector<WithGraphs> compared(std::min(differ ? 1 : kMostCompared, found.ranked.size()));
  in_parallel(compared.size(), threads, [&](std::size_t i) {
    const Candidate& c = found.ranked[i].candidate;
    const Evaluation with = evaluate(problem, c, Depth::Extrapolation, {.checks = Checks::None});
    compared[i] = {c, simulated_per_closed_form * with.evaluated.estimate.closed_form};
  });
  const auto simulate = [&](WithGraphs& c) {
    if (differ && exchange_flows(problem, c.candidate) > kMostFlows) return;
    c.step = simulated_makespan(problem, c.candidate, threads).seconds();
    c.is_simulated = true;
  };
  const auto is_faster = [](const WithGraphs& a, const WithGraphs& b) { return a.step < b.step; };
  const auto fastest = std::min_element(compared.begin(), compared.end(), is_faster);
  simulate(compared.front());
  if (fastest->step < kClearly * compared.front().step) simulate(*fastest);
  return fastest->step < kClearly * compared.front().step ? *fastest : compared.front();
}

}  // namespace moeplan::planner
