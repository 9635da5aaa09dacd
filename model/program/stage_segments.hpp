// Pipeline stages cut into segments that run without a word from other stages, so that a few small runs stand for
// thousands of microbatches.
//
// A segment begins at a step whose first operation is a Receive or a Wait, or after a block that Sends, and lasts until
// the next one begins. All its Receives stand at its start. Between them its ranks depend on nobody outside the stage,
// so that a segment run alone takes as long as in the whole run, as long as the ranks of the stage begin it together,
// other stages' traffic does not cross its links, and what earlier segments left on background streams has ended
// (compose_stages.hpp says what is done where it has not).
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model/program/program.hpp"

namespace moeplan {

/// What a Receive or a Send exchanges with another stage.
struct StageMessage {
  std::int64_t shift;  // stages from sender to receiver, cyclically
  std::int32_t channel;
  std::int64_t bytes;  // of a Send, on the first rank of the stage
  BlockId block;
  std::int32_t operation;  // of the block
};

struct Segment {
  Sequence steps;
  std::vector<StageMessage> receives;
  std::vector<StageMessage> sends;  // in order
  bool waits = false;               // it begins with a Wait for replicas
};

struct StageSegments {
  Program local;                                // one stage's ranks and all blocks; no sequence
  std::vector<Segment> segments;                // different ones
  std::vector<std::vector<std::size_t>> order;  // by stage: what it runs, one after the other

  /// The stage so many on, cyclically.
  [[nodiscard]] std::size_t shifted(std::size_t stage, std::int64_t shift) const;
  /// `local` with the sequence of a segment.
  [[nodiscard]] Program program(std::size_t segment) const;
};

/// Raises std::logic_error where a Receive does not stand at the start of a block, or a message in a repeat.
[[nodiscard]] StageSegments stage_segments(const Program& program);

/// A Program of one stage's ranks with all blocks: Receives are Waits for nothing, Sends go to the rank itself.
[[nodiscard]] Program stage_program(const Program& program);

}  // namespace moeplan
