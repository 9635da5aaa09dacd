// The current position of one rank in its sequence of a Program.
#pragma once

#include <vector>

#include "model/program/program.hpp"

namespace moeplan::sim {

/// A cursor that walks a Sequence block by block. It stops at a boundary before each iteration of a repeat and after
/// the last, so that a simulator can check whether all ranks have reached the same boundary.
class ProgramCursor {
 public:
  enum class At { Block, Boundary, End };

  explicit ProgramCursor(const Sequence& sequence) { frames_.push_back({&sequence, nullptr, 0, 0, false}); }

  /// Moves from a block that has ended (or the start, or a boundary that was passed) to the next block or boundary, or
  /// to the end.
  At next();

  /// At a boundary: enters the next iteration, or leaves the repeat if all iterations are done.
  void pass() { frames_.back().at_boundary = false; }

  /// At a boundary: so many of the remaining iterations count as done.
  void skip(std::int64_t iterations) { frames_.back().done += iterations; }

  [[nodiscard]] BlockId block() const { return block_; }
  /// At a boundary: the number of open repeats, including this one.
  [[nodiscard]] std::size_t depth() const { return frames_.size() - 1; }
  /// At a boundary: the iterations of its repeat, and how many of them are done.
  [[nodiscard]] std::int64_t iterations() const { return frames_.back().repeat->count; }
  [[nodiscard]] std::int64_t iterations_done() const { return frames_.back().done; }
  /// At a boundary: its repeat.
  [[nodiscard]] const Step& repeat() const { return *frames_.back().repeat; }
  /// At a boundary: whether it is the end of the iteration that begins at the boundary `other`.
  [[nodiscard]] bool follows(const ProgramCursor& other) const {
    if (iterations_done() == 0) return false;
    ProgramCursor before(*this);
    --before.frames_.back().done;
    return before.same_boundary(other);
  }
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
