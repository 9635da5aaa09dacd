// An iteration over time: a row for each pipeline stage (or rank), with the passes of all microbatches above and
// communication below.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/pages/figures/canvas.hpp"
#include "planner/report/iteration_timeline.hpp"

namespace moeplan::cli {

struct PipelineChart {
  std::vector<planner::RankTimeline> rows;
  std::vector<std::string> labels;  // by row
  SimTime makespan;
};

/// The chart at this width, of the whole iteration or of a window. Passes carry the number of their microbatch where
/// there is room. Where passes are narrower than a pixel, columns show how long the rank does what in them.
[[nodiscard]] Canvas draw_pipeline(const PipelineChart& chart, double width,
                                   const std::optional<planner::TimeInterval>& window = {});

/// Windows at the beginning and at the end of the iteration in which passes are wide enough for their numbers; empty if
/// they are in a figure of the whole iteration, or if it has no passes.
[[nodiscard]] std::vector<planner::TimeInterval> legible_windows(const PipelineChart& chart);

}  // namespace moeplan::cli
