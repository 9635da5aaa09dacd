// The executor of a Program on one rank: resolves its operations to rows and issues them to a Backend. It is
// independent of schedules.
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
  /// Resolves every row, allocates the buffers and prepares every operation of the blocks of the rank's stage, each of
  /// which executes once. Program, choices and back end must outlive this object. Raises InputError if an operation is
  /// not supported (resolve_work.hpp).
  Interpreter(const Program& program, RankId rank, const TokenChoices& choices, LayerFacts facts, Backend& backend);

  /// Executes all blocks once. Returns the spans of the operations, with times relative to the start of the execution.
  [[nodiscard]] std::vector<TimelineSpan> run();

  [[nodiscard]] RankId rank() const { return rank_; }
  [[nodiscard]] std::span<const BlockId> blocks() const { return blocks_; }
  [[nodiscard]] const Layout& layout() const { return layout_; }
  [[nodiscard]] bool has_buffer(const std::string& name) const;
  [[nodiscard]] BufferId buffer(const std::string& name) const;
  /// Access to rows that the blocks refer to.
  void write(BufferId buffer, const Slot& slot, std::span<const double> values) {
    backend_.write_row(buffer, layout_.place(buffer, slot), values);
  }
  [[nodiscard]] std::vector<double> read(BufferId buffer, const Slot& slot) {
    return backend_.read_row(buffer, layout_.place(buffer, slot));
  }
  void make(BufferId buffer, const MadeElements& elements) { backend_.make(buffer, elements); }
  void clear(BufferId buffer) { backend_.clear(buffer); }

 private:
  /// One operation of the back end. An operation of the Program consists of one or several, in sequence.
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
