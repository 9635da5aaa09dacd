// A roofline comparison of parallelisations of one MoE layer: points of FasterMoE's DDL-roofline ([FasterMoE] sec. 3.3,
// figure 5) for data, model and expert parallelism and for each schedule. Every point is a simulated Program; memory
// limits are ignored.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/analysis/ddl_roofline.hpp"
#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"
#include "planner/evaluation/problem.hpp"

namespace moeplan::planner {

/// One point of the roofline.
struct LayerPoint {
  std::string name;  // "expert parallelism", or the name of a schedule
  Candidate candidate;
  SimTime makespan;  // forward and, in training, backward
  DdlRoofline roofline;
};

/// The points of the model's first MoE layer, with a plan's tokens on the ranks of one pipeline stage, each rank having
/// tokens of its own:
///
///   this plan            the plan's degrees and schedule
///   expert parallelism   as many ranks as possible hold experts of their own; the baseline schedule
///   data parallelism     every rank computes all experts for its tokens; in training each gradient is all-reduced
///                        concurrently with the rest of the backward pass, as soon as it is available
///   model parallelism    every expert is sharded over all ranks, whose tokens are gathered first and whose results are
///                        summed ([FasterMoE]'s two all-reduces; Parm's baseline gathers the input once more)
///   a schedule           every other one that can run on the degrees of expert parallelism, with the fastest number of
///                        chunks out of 1, 2, 4 and 8
///
/// Variants that cannot run are omitted, and those of which all ranks differ and exchange so much that a simulation
/// would take long. The result is empty for a model without MoE layers.
[[nodiscard]] std::vector<LayerPoint> layer_roofline(const Problem& problem, const Candidate& plan);

}  // namespace moeplan::planner
