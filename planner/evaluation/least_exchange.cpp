#include "planner/evaluation/least_exchange.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/layer/all_to_all.hpp"
#include "planner/lowering/blocks/launches.hpp"

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

}  // namespace

void leave_out(Block& block, const std::function<bool(const Operation&)>& is_omitted) {
  std::vector<std::vector<std::int32_t>> waits_for(block.operations.size());  // by old index: the new indices
  std::vector<Operation> kept;
  for (std::size_t i = 0; i < block.operations.size(); ++i) {
    Operation& operation = block.operations[i];
    std::vector<std::int32_t> after;
    for (const std::int32_t before : operation.after) {
      const auto& of = waits_for[static_cast<std::size_t>(before)];
      after.insert(after.end(), of.begin(), of.end());
    }
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    if (is_omitted(operation)) {
      waits_for[i] = std::move(after);
      continue;
    }
    waits_for[i] = {static_cast<std::int32_t>(kept.size())};
    operation.after = std::move(after);
    kept.push_back(std::move(operation));
  }
  block.operations = std::move(kept);
}

Candidate with_least_exchange(Candidate candidate) {
  const auto exchange_least = [](auto& strategy) {
    if (is_searched(*strategy.all_to_all)) strategy.all_to_all = "linear";
    strategy.pipeline_degree = 1;
    strategy.codec = {};
  };
  exchange_least(candidate);
  std::for_each(candidate.runs.begin(), candidate.runs.end(), exchange_least);
  return candidate;
}

Program without_exchange(Program program, const Workload& workload) {
  for (Block& block : program.blocks) {
    const std::int64_t before = launched_operations(block, workload);
    leave_out(block, belongs_to_exchange);
    // Chunks of an operation may count less than the whole by some thousandths, and the sum is rounded.
    const std::int64_t uncertain = launched_operations(block, workload) < before ? 1 : 0;
    for (Operation& operation : block.operations) {
      if (auto* launches = std::get_if<Launches>(&operation.work)) launches->operations -= uncertain;
    }
  }
  program.fills_waves = true;
  return program;
}

}  // namespace moeplan::planner
