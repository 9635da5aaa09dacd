// A pairwise selection of layer strategies for value tests: all strategies without a codec, and enough strategies with
// codecs to combine each codec with every schedule, all-to-all and number of chunks.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "planner/layer/all_to_all.hpp"
#include "planner/search/layer_search.hpp"

/// The pairwise selection from `runs`, in the same order.
inline std::vector<moeplan::planner::LayerStrategy> pairwise_runs(
    const std::vector<moeplan::planner::LayerStrategy>& runs) {
  std::set<std::pair<std::string, std::string>> met;
  std::vector<moeplan::planner::LayerStrategy> out;
  for (const moeplan::planner::LayerStrategy& run : runs) {
    bool is_new = run.codec == moeplan::CodecPair{};
    for (const std::string& other : {run.schedule.name(), run.all_to_all.name(), std::to_string(run.pipeline_degree)}) {
      is_new |= met.emplace(codec_pair_name(run.codec), other).second;
    }
    if (is_new) out.push_back(run);
  }
  return out;
}

/// layer_strategies(), and the same with the all-to-alls of NCCL's that searches consider only where asked to; their
/// pairwise selections.
inline std::vector<moeplan::planner::LayerStrategy> executed_strategies(std::int64_t hidden_size,
                                                                        const moeplan::Workload& workload,
                                                                        const moeplan::planner::Candidate& candidate,
                                                                        std::int64_t ranks_per_node) {
  using namespace moeplan::planner;
  std::vector<LayerStrategy> out = pairwise_runs(layer_strategies(hidden_size, workload, candidate, ranks_per_node));
  for (const auto& algorithm : all_to_alls()) {
    if (!algorithm->gathers()) continue;
    const LayerSpace only{.all_to_all = BuiltIn<AllToAll>(*algorithm)};
    const auto more = pairwise_runs(layer_strategies(hidden_size, workload, candidate, ranks_per_node, only));
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}
