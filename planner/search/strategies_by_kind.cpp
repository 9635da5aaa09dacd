#include "planner/search/strategies_by_kind.hpp"

#include <algorithm>

#include "planner/search/place_experts.hpp"

namespace moeplan::planner {

std::vector<LayerStrategy> strategies_by_kind(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                              const Candidate& candidate, const LayerSpace& space,
                                              std::int64_t asymmetric_rank_threshold, int threads) {
  constexpr std::size_t kTried = 8;
  const Candidate stage = LayerStrategy::of(candidate).in(stage_alone(candidate));
  const std::vector<PlacedLayer> kinds = placed_layers(model, workload, cluster, stage, /*redundant_experts=*/0);
  if (kinds.size() < 2) return {};

  const auto fastest = [&](std::size_t kind, const std::vector<LayerStrategy>& of, std::size_t count) {
    const LayerProblem layer =
        layer_problem(model, workload, kinds[kind].moe, stage, cluster, asymmetric_rank_threshold, kind);
    return fastest_strategies(of, layer, count, threads).fastest;
  };
  std::vector<double> unevenness;
  for (const PlacedLayer& kind : kinds) unevenness.push_back(imbalance({kind}));
  const auto [even, uneven] = std::minmax_element(unevenness.begin(), unevenness.end());

  const std::vector<LayerStrategy> all =
      layer_strategies(row_columns(model), workload, stage, cluster.ranks_per_node(), space);
  std::vector<LayerStrategy> tried{LayerStrategy::of(stage)};
  for (const auto kind : {even, uneven}) {
    for (const PricedStrategy& p : fastest(static_cast<std::size_t>(kind - unevenness.begin()), all, kTried)) {
      if (std::find(tried.begin(), tried.end(), p.run) == tried.end()) tried.push_back(p.run);
    }
  }
  std::vector<LayerStrategy> out;
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    const std::vector<PricedStrategy> best = fastest(kind, tried, 1);
    out.push_back(best.empty() ? tried.front() : best.front().run);
  }
  const bool all_equal = std::all_of(out.begin(), out.end(), [&](const LayerStrategy& r) { return r == out.front(); });
  return all_equal ? std::vector<LayerStrategy>{} : out;
}

}  // namespace moeplan::planner
