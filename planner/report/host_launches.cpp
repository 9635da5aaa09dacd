#include "planner/report/host_launches.hpp"

#include <algorithm>
#include <variant>

#include "model/analysis/critical_path.hpp"

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

StepTime step_with_graphs(const Inputs& inputs, const Cluster& cluster, const Candidate& candidate,
                          const Prediction& without, const CudaGraphs& graphs) {
  constexpr std::int64_t kMostFlows = 500'000;  // assumed: a simulation with 1.4 million takes 5.3 s
  Workload workload = inputs.workload;
  workload.cuda_graphs = graphs;
  const Problem problem(inputs.model, workload, cluster);
  if (exchange_flows(problem, candidate) > kMostFlows &&
      has_asymmetric_ranks(without.program, problem.stage_clusters())) {
    const Evaluation with = evaluate(problem, candidate, Depth::Extrapolation, {.checks = Checks::None});
    const double ratio = with.evaluated.estimate.closed_form / without.estimate.closed_form;
    return {ratio * without.makespan.seconds(), /*is_simulated=*/false};
  }
  return {simulated_makespan(problem, candidate).seconds(), /*is_simulated=*/true};
}

}  // namespace moeplan::planner
