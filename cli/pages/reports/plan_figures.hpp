// The figures of a plan's report.
#pragma once

#include <optional>
#include <vector>

#include "cli/pages/figures/figure.hpp"
#include "cli/pages/plans/explanation.hpp"
#include "planner/report/iteration_timeline.hpp"
#include "planner/search/search_result.hpp"

namespace moeplan::cli {

/// Everything that a plan's report shows.
struct PlanView {
  const Explanation& explanation;
  std::vector<MemoryUse> memory;                 // by stage
  std::vector<planner::RankTimeline> timelines;  // of representative_ranks()
  std::optional<planner::SearchResult> search;   // of all candidates, if it was asked for
};

[[nodiscard]] inline double in_gib(Bytes n) { return n.value() / 1073741824.0; }

/// The whole iteration and, if passes are narrow in it, its beginning and its end.
[[nodiscard]] std::vector<Figure> timeline_figures(const PlanView& view);

/// The operations of one MoE layer (or of the most frequent one, without MoE layers) on the streams of the binding
/// rank.
[[nodiscard]] Figure layer_figure(const PlanView& view);

[[nodiscard]] Figure memory_figure(const PlanView& view);

/// The critical path as a waterfall: the time of each class on it, one after the other.
[[nodiscard]] Figure path_figure(const PlanView& view);

[[nodiscard]] Figure sensitivity_figure(const PlanView& view);

/// The operations that a roofline shows: those with FLOPs, equal ones of several blocks together, by time.
struct KernelRow {
  std::string name;
  double flops = 0;  // of one execution
  double bytes = 0;
  Seconds each, total;  // of one execution and of all
};
[[nodiscard]] std::vector<KernelRow> kernels_of(const PlanView& view);

/// FLOP/s over FLOPs a byte of the kernels, under the peaks of the GPU; numbered in their order.
[[nodiscard]] Figure roofline_figure(const PlanView& view, const std::vector<KernelRow>& kernels);

/// One MoE layer by the parallelisations and schedules of Explanation::layer_points; none without MoE layers.
[[nodiscard]] std::optional<Figure> alternatives_figure(const PlanView& view);

/// Memory over time of all candidates; none without a search.
[[nodiscard]] std::optional<Figure> candidates_figure(const PlanView& view);

}  // namespace moeplan::cli
