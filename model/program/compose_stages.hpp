// The run of a pipeline from the times of its segments.
//
// Each stage runs its segments one after the other; a segment begins when the one before has ended and all its messages
// are there. So with t the joined end, and g the end of its background operations, of a segment alone,
//
//   begin(i) = max(begin(i - 1) + t(i - 1), arrivals of its messages, background end if it begins with a Wait),
//   arrival  = max(begin + when the Send was reached, end of the stage's Send before) + transfer time.
//
// Exact under the conditions of stage_segments.hpp. Where background traffic outlasts its segment, it goes on beside
// the next ones without slowing them and then is followed by theirs, so that it ends no earlier than it would alone.
#pragma once

#include <functional>
#include <vector>

#include "model/base/sim_time.hpp"
#include "model/program/stage_segments.hpp"

namespace moeplan {

/// A segment alone, from its begin.
struct SegmentTimes {
  SimTime joined;              // end of all that holds up the next segment
  SimTime background_end;      // end of the operations on the replicas' stream; 0: there are none
  SimTime background_busy;     // how long that stream is busy
  std::vector<SimTime> sends;  // when each Send is reached
};

/// Time of a message between stages, from the moment at which the sender reaches it: by sending stage and message of a
/// segment.
using TransferTime = std::function<SimTime(std::size_t stage, const StageMessage& message)>;

/// One run of a segment.
struct SegmentRun {
  SimTime reached;  // the one before had ended
  SimTime begin;
  std::vector<std::pair<SimTime, SimTime>> sends;  // start and end of each
};

struct ComposedRun {
  std::vector<std::vector<SegmentRun>> runs;  // by stage and place in StageSegments::order
  std::vector<SimTime> stage_end;
  SimTime makespan;
};

/// `times` by stage and segment. Raises std::logic_error where stages wait for each other in a circle.
[[nodiscard]] ComposedRun compose_stages(const StageSegments& stages,
                                         const std::vector<std::vector<SegmentTimes>>& times,
                                         const TransferTime& transfer);

}  // namespace moeplan
