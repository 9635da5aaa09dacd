// One execution of an operation by a rank of the simulator.
#pragma once

#include <cstdint>

#include "model/program/program.hpp"

namespace moeplan::sim {

/// One execution of an operation of a block by a rank.
struct OperationInstance {
  BlockId block;
  std::int32_t operation;     // in the block
  std::int64_t block_number;  // number of blocks that the rank had begun before
};

[[nodiscard]] inline const Operation& operation_of(const Program& program, const OperationInstance& instance) {
  return program.operation(instance.block, instance.operation);
}

}  // namespace moeplan::sim
