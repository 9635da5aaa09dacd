// Composition of a pipeline's execution from the times of its segments.
//
// Each stage executes its segments in order. A segment begins when the previous one has ended and all its messages have
// arrived. With t the joined end of a segment executed alone, and g the end of its background operations,
//
//   begin(i) = max(begin(i - 1) + t(i - 1), arrivals of its messages, background end if it begins with a Wait),
//   arrival  = max(begin + time when the Send is reached, end of the stage's previous Send) + transfer time.
//
// Exact under the conditions of stage_segments.hpp. Background traffic that outlasts its segment continues concurrently
// with the next segments without slowing them down, and the background traffic of those segments follows it, so that it
// ends no earlier than it would alone.
#pragma once

#include <functional>
#include <vector>

#include "model/base/sim_time.hpp"
#include "model/program/stage_segments.hpp"

namespace moeplan {

/// Times of a segment executed alone, relative to its begin.
struct SegmentTimes {
  SimTime joined;              // end of all operations that the next segment waits for
  SimTime background_end;      // end of the operations on the replicas' stream; 0: none
  SimTime background_busy;     // busy time of that stream
  std::vector<SimTime> sends;  // time at which each Send is reached
};

/// Transfer time of a message between stages, from the moment the sender reaches it; arguments: the sending stage and
/// the message of its segment.
using TransferTime = std::function<SimTime(std::size_t stage, const StageMessage& message)>;

/// One execution of a segment.
struct SegmentRun {
  SimTime reached;  // when the previous segment ended
  SimTime begin;
  std::vector<std::pair<SimTime, SimTime>> sends;  // start and end of each
};

struct ComposedRun {
  std::vector<std::vector<SegmentRun>> runs;  // by stage and position in StageSegments::order
  std::vector<SimTime> stage_end;
  SimTime makespan;
};

/// Composes the execution. `times` is indexed by stage and segment. Raises std::logic_error if stages wait for each
/// other in a cycle.
[[nodiscard]] ComposedRun compose_stages(const StageSegments& stages,
                                         const std::vector<std::vector<SegmentTimes>>& times,
                                         const TransferTime& transfer);

}  // namespace moeplan
