// The operations that one rank executes in an iteration, with the time that each takes.
#pragma once

#include <cstdint>
#include <vector>

#include "model/analysis/timeline.hpp"
#include "model/program/program.hpp"

namespace moeplan {

/// All executions of one operation of a block on a rank.
struct OperationRow {
  BlockId block;
  std::int32_t operation = 0;  // index in the block
  std::int64_t executions = 0;
  Seconds time;            // of all executions; of a communication, from reaching it to its end
  double flops = 0;        // of one execution
  std::int64_t bytes = 0;  // of one execution: read and written by a computation, sent by a communication

  [[nodiscard]] Seconds each() const { return time / static_cast<double>(executions); }
};

/// The rows of `rank`, by block and operation. Operations without time are left out. `timeline` has spans.
[[nodiscard]] std::vector<OperationRow> operation_list(const Program& program, const Timeline& timeline, RankId rank);

}  // namespace moeplan
