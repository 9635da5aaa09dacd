// A pairwise selection of layer strategies for value tests: all strategies without a codec, and enough strategies with
// codecs to combine each codec with every schedule, all-to-all and number of chunks.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

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
