// The timeline of an iteration by pipeline stage: the passes of all microbatches, and when a rank computes and
// communicates. Iterations that a Timeline records once are expanded.
#pragma once

#include <cstddef>
#include <vector>

#include "model/analysis/timeline.hpp"
#include "planner/candidate/pipeline_tasks.hpp"
#include "planner/evaluation/problem.hpp"

namespace moeplan::planner {

struct TimeInterval {
  SimTime start, end;
  bool operator==(const TimeInterval&) const = default;
};

/// A pass of one microbatch through one part of a stage, from its first computation to its last.
struct TimedTask {
  PipelineTask task;
  TimeInterval time;
};

/// One rank's iteration. Intervals are ascending and disjoint.
struct RankTimeline {
  RankId rank;
  std::size_t stage = 0;
  /// In order. Empty if passes of several microbatches run concurrently (Candidate::ep_overlap).
  std::vector<TimedTask> tasks;
  std::vector<TimeInterval> forward, backward;  // computing in such passes
  std::vector<TimeInterval> other;              // other computation: the optimizer
  std::vector<TimeInterval> exposed;            // communicating without computing; waiting for peers included
  std::vector<TimeInterval> hidden;             // communicating while computing

  [[nodiscard]] SimTime total(std::vector<TimeInterval> RankTimeline::*part) const;
};

/// The ranks that represent an iteration: the first of each pipeline stage; of a single stage whose ranks differ at
/// most eight, evenly spread, with `binding` among them.
[[nodiscard]] std::vector<RankId> representative_ranks(const Timeline& timeline, std::int64_t world_size,
                                                       std::size_t stages, RankId binding);

/// The timelines of `ranks`, which `timeline` records, in their order. Receives and waits are not communication, since
/// they occupy nothing. O(S log S) for S executions of operations on these ranks.
[[nodiscard]] std::vector<RankTimeline> rank_timelines(const Problem& problem, const Candidate& candidate,
                                                       const Program& program, const Timeline& timeline,
                                                       const std::vector<RankId>& ranks);

/// The union of intervals in any order, as ascending disjoint ones; those at most `gap` apart are joined.
[[nodiscard]] std::vector<TimeInterval> joined_intervals(std::vector<TimeInterval> intervals, SimTime gap = {});

}  // namespace moeplan::planner
