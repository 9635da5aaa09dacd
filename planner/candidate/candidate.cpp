#include "planner/candidate/candidate.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace moeplan::planner {

LayerStrategy LayerStrategy::of(const Candidate& c) { return {c.schedule, c.all_to_all, c.pipeline_degree, c.codec}; }

LayerStrategy LayerStrategy::of(const Candidate& c, std::size_t kind) { return c.runs.empty() ? of(c) : c.runs[kind]; }

Candidate LayerStrategy::in(Candidate candidate) const {
  candidate.schedule = schedule;
  candidate.all_to_all = all_to_all;
  candidate.pipeline_degree = pipeline_degree;
  candidate.codec = codec;
  candidate.runs.clear();
  return candidate;
}

std::string name_of(OperationOrder order) {
  return std::string(moeplan::name_of<OperationOrder>(kOperationOrderNames, order));
}

std::string name_of(RankOrder order) { return std::string(moeplan::name_of<RankOrder>(kRankOrderNames, order)); }

std::string name_of(PipelineShape shape) {
  return std::string(moeplan::name_of<PipelineShape>(kPipelineShapeNames, shape));
}

std::string strategy_text(const LayerStrategy& run) {
  return fmt::format("{} {} {} {}", run.schedule.name(), run.all_to_all.name(), run.pipeline_degree,
                     codec_pair_name(run.codec));
}

std::string strategies_text(const std::vector<LayerStrategy>& runs) {
  std::vector<LayerStrategy> known;
  std::string out;
  for (const LayerStrategy& r : runs) {
    if (std::find(known.begin(), known.end(), r) != known.end()) continue;
    known.push_back(r);
    out += fmt::format("{}{} x {}", out.empty() ? "" : ", ", std::count(runs.begin(), runs.end(), r), strategy_text(r));
  }
  return out;
}

}  // namespace moeplan::planner
