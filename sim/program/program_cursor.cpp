#include "sim/program/program_cursor.hpp"

namespace moeplan::sim {

ProgramCursor::At ProgramCursor::next() {
  while (true) {
    Frame& frame = frames_.back();
    if (frame.repeat && frame.index == 0 && frame.done == frame.repeat->count) {
      frames_.pop_back();
      continue;
    }
    if (frame.index == frame.sequence->size()) {
      if (!frame.repeat) return At::End;
      ++frame.done;
      frame.index = 0;
      frame.at_boundary = true;
      return At::Boundary;
    }
    const Step& step = (*frame.sequence)[frame.index++];
    if (step.is_block()) {
      block_ = step.block;
      return At::Block;
    }
    if (step.count <= 0) continue;
    frames_.push_back({&step.body, &step, 0, 0, true});
    return At::Boundary;
  }
}

}  // namespace moeplan::sim
