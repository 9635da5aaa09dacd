// One MoE layer as points of FasterMoE's DDL-roofline ([FasterMoE] sec. 3.3, figure 5): parallelised over data, model
// or experts, and by each schedule. Every point is a Program, simulated; memory is not asked about.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/analysis/ddl_roofline.hpp"
#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

struct LayerPoint {
  std::string name;  // "expert parallelism", or the schedule's
  Candidate candidate;
  SimTime makespan;  // forward, in training backward too
  DdlRoofline roofline;
};

/// The model's first MoE layer with a plan's tokens on the ranks of a pipeline stage, each with tokens of its own:
///
///   this plan            the plan's degrees and schedule
///   expert parallelism   as many ranks as can, hold experts of their own; the baseline schedule
///   data parallelism     every rank computes all experts for its tokens; in training their gradients are all-reduced
///                        beside the rest of the backward pass, from when they are there
///   model parallelism    every expert is cut over all ranks, whose tokens are gathered first and whose results are
///                        summed ([FasterMoE]'s two all-reduces; Parm's baseline gathers the input once more)
///   a schedule           every other one that can run on the degrees of expert parallelism, with the number of chunks,
///                        of 1, 2, 4 and 8, that is fastest
///
/// What cannot run is left out; nothing without MoE layers.
[[nodiscard]] std::vector<LayerPoint> layer_roofline(const ModelSpec& model, const Workload& workload,
                                                     const Cluster& cluster, const Candidate& plan);

}  // namespace moeplan::planner
