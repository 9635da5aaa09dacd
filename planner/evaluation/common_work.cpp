#include "planner/evaluation/common_work.hpp"

#include <algorithm>
#include <set>

namespace moeplan::planner {

namespace {

bool belongs_to_exchange(const Operation& operation) {
  switch (operation.op_class) {
    case OpClass::Dispatch:
    case OpClass::Combine:
    case OpClass::ExpertSharding:
    case OpClass::Codec:
    case OpClass::Permute: return true;
    default: return false;
  }
}

/// The remaining operations inherit the dependencies of the removed ones.
void leave_out_exchange(Block& block) {
  std::vector<std::set<std::int32_t>> waits_for(block.operations.size());  // by old index: the new indices
  std::vector<Operation> kept;
  for (std::size_t i = 0; i < block.operations.size(); ++i) {
    Operation& operation = block.operations[i];
    std::set<std::int32_t> after;
    for (const std::int32_t before : operation.after) {
      const auto& of = waits_for[static_cast<std::size_t>(before)];
      after.insert(of.begin(), of.end());
    }
    if (belongs_to_exchange(operation)) {
      waits_for[i] = std::move(after);
      continue;
    }
    waits_for[i] = {static_cast<std::int32_t>(kept.size())};
    operation.after.assign(after.begin(), after.end());
    kept.push_back(std::move(operation));
  }
  block.operations = std::move(kept);
}

}  // namespace

Program without_exchange(Program program) {
  for (Block& block : program.blocks) leave_out_exchange(block);
  return program;
}

}  // namespace moeplan::planner
