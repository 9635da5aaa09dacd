// Runs a Program's blocks on a back end, as one rank. Knows operations, no schedule.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/layout.hpp"
#include "cuda_runtime/resolve_work.hpp"
#include "model/analysis/timeline.hpp"

namespace moeplan::runtime {

class Interpreter {
 public:
  /// Finds every row, allocates the buffers and prepares every operation of the blocks that the rank's stage runs, each
  /// of which runs once. Program, choices and back end outlive this. Raises InputError where something of it is not
  /// executed (resolve_work.hpp).
  Interpreter(const Program& program, RankId rank, const TokenChoices& choices, LayerFacts facts, Backend& backend);

  /// One run of all blocks; spans by operation, times since its begin.
  [[nodiscard]] std::vector<TimelineSpan> run();

  [[nodiscard]] RankId rank() const { return rank_; }
  [[nodiscard]] std::span<const BlockId> blocks() const { return blocks_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] BufferId buffer(const std::string& name) const;
  /// Rows that the blocks name.
  void write(BufferId buffer, const Slot& slot, std::span<const double> values) {
    backend_.write_row(buffer, layout_.place(buffer, slot), values);
  }
  [[nodiscard]] std::vector<double> read(BufferId buffer, const Slot& slot) {
    return backend_.read_row(buffer, layout_.place(buffer, slot));
  }
  void clear(BufferId buffer) { backend_.clear(buffer); }

 private:
  /// What the back end knows as one operation. An operation of the Program may be several, one after the other.
  struct Step {
    BlockId block;
    std::int32_t operation;
    Stream stream;
    std::vector<std::size_t> after;
  };
  using LastSteps = std::array<std::optional<std::size_t>, kStreamNames.size()>;  // by stream
  void add(const ResolveContext& context, BlockId block, LastSteps& before);
  void add_steps(std::vector<Work> works, const Block& block, Step step);

  const Program& program_;
  RankId rank_;
  std::vector<BlockId> blocks_;
  Layout layout_;
  Backend& backend_;
  std::vector<Step> steps_;
};

}  // namespace moeplan::runtime
