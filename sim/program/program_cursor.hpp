// One rank's place in its sequence of a Program.
#pragma once

#include <vector>

#include "model/program/program.hpp"

namespace moeplan::sim {

/// Walks block by block. Before each iteration of a repeat, and after the last, it stops at a boundary, so that a
/// simulator can see whether all ranks stand there together.
class ProgramCursor {
 public:
  enum class At { Block, Boundary, End };

  explicit ProgramCursor(const Sequence& sequence) { frames_.push_back({&sequence, nullptr, 0, 0, false}); }

  /// From a block that has ended (or the start, or a boundary that was passed) to what comes next.
  At next();

  /// At a boundary: on into the iteration, or out of the repeat if all are done.
  void pass() { frames_.back().at_boundary = false; }

  /// At a boundary: the remaining iterations count as done.
  void end_repeat() { frames_.back().done = frames_.back().repeat->count; }

  [[nodiscard]] BlockId block() const { return block_; }
  /// Of a boundary: how many repeats are open, this one included; its iterations, and how many of them are done.
  [[nodiscard]] std::size_t depth() const { return frames_.size() - 1; }
  [[nodiscard]] std::int64_t iterations() const { return frames_.back().repeat->count; }
  [[nodiscard]] std::int64_t iterations_done() const { return frames_.back().done; }
  [[nodiscard]] bool same_boundary(const ProgramCursor& other) const { return frames_ == other.frames_; }

 private:
  struct Frame {
    const Sequence* sequence;
    const Step* repeat;  // null for the program itself
    std::size_t index;   // the next step
    std::int64_t done;   // iterations of the repeat
    bool at_boundary;
    bool operator==(const Frame&) const = default;
  };

  std::vector<Frame> frames_;
  BlockId block_;
};

}  // namespace moeplan::sim
