// Division of pipeline stages into segments that execute without communication with other stages, so that a few short
// simulations represent thousands of microbatches.
//
// A segment begins at a step whose first operation is a Receive or a Wait, or after a block with a Send, and lasts
// until the next one begins. All its Receives are at its start; after them its ranks depend on no other stage. A
// segment executed alone therefore takes as long as within the whole program, provided that the ranks of the stage
// begin it together, other stages' traffic does not cross its links, and the background operations of earlier segments
// have ended (compose_stages.hpp says what is done if they have not).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model/program/program.hpp"

namespace moeplan {

/// A message that a Receive or a Send exchanges with another stage.
struct StageMessage {
  std::int64_t shift;  // stages from sender to receiver, cyclically
  std::int32_t channel;
  std::int64_t bytes;  // of a Send, on the first rank of the stage
  BlockId block;
  std::int32_t operation;  // index in the block
};

struct Segment {
  Sequence steps;
  std::vector<StageMessage> receives;
  std::vector<StageMessage> sends;  // in order
  bool waits = false;               // the segment begins with a Wait for replicas
};

struct StageSegments {
  std::vector<Segment> segments;                // distinct segments
  std::vector<std::vector<std::size_t>> order;  // by stage: indices of the segments that it executes, in order

  /// The stage `shift` stages ahead, cyclically.
  [[nodiscard]] std::size_t shifted(std::size_t stage, std::int64_t shift) const;
};

/// Divides sequences of a Program's blocks, one a stage, into segments. Raises std::logic_error if a Receive is not at
/// the start of a block, or if a message is inside a repeat.
[[nodiscard]] StageSegments stage_segments(const Program& program, const std::vector<Sequence>& stages);
/// The same of the Program's own stages.
[[nodiscard]] inline StageSegments stage_segments(const Program& program) {
  return stage_segments(program, program.stages);
}

/// A Program of one stage's ranks with all blocks, without a sequence: Receives become Waits that wait for nothing,
/// Sends go to the rank itself.
[[nodiscard]] Program stage_program(const Program& program);

}  // namespace moeplan
