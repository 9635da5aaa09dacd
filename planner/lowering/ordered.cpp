#include "planner/lowering/ordered.hpp"

#include <algorithm>

#include "model/program/stage_segments.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/ordering/reorder.hpp"

namespace moeplan::planner {

namespace {

OrderSearch summary(const Reordering& reordering) {
  OrderSearch out;
  out.fixed = std::ssize(reordering.fixed);
  out.blocks = std::ssize(reordering.blocks) + out.fixed + std::ssize(reordering.left);
  if (out.blocks > std::ssize(reordering.left)) out.answered_by = reordering.answered_by();
  for (const BlockOrder& b : reordering.blocks) {
    out.improved += b.best < b.listed ? 1 : 0;
    out.states += b.nodes;
  }
  return out;
}

/// All blocks on the ranks of one stage, each executed once.
Program one_stage(const Program& program) {
  Program local = stage_program(program);
  for (std::size_t b = 0; b < local.blocks.size(); ++b) local.stages.front().push_back({.block = BlockId(b)});
  return local;
}

/// Whether receives still come before all other operations (stage_segments.hpp).
bool keeps_receives(const Block& block, const std::vector<std::int32_t>& order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool waits = std::holds_alternative<Receive>(block.operations[i].work) ||
                       std::holds_alternative<Wait>(block.operations[i].work);
    if (!waits) return true;
    if (order[i] != static_cast<std::int32_t>(i)) return false;
  }
  return true;
}

SearchedOrder searched_pipeline(const Program& program, StageClusters& machines) {
  const auto stages = std::ssize(program.stages);
  SearchedOrder out{program, {}};
  if (!machines.are_equivalent(stages)) {
    out.search.blocks = std::ssize(program.blocks);
    return out;
  }
  Reordering local = reordered(one_stage(program), machines.of(stages, 0).cluster, kPlanOrderBudget);
  for (BlockOrder& b : local.blocks) {
    if (!(b.best < b.listed)) continue;
    const Block& before = program.blocks[b.block.index()];
    if (!keeps_receives(before, b.order)) {
      b.best = b.listed;  // the order found cannot be used
      b.proved = false;
      continue;
    }
    Block& block = out.program.blocks[b.block.index()];
    block = local.program.blocks[b.block.index()];
    for (std::size_t i = 0; i < b.order.size(); ++i) {
      block.operations[i].work = before.operations[static_cast<std::size_t>(b.order[i])].work;
    }
  }
  out.search = summary(local);
  return out;
}

}  // namespace

SearchedOrder searched_order(const Program& program, StageClusters& machines) {
  if (program.stages.size() > 1) return searched_pipeline(program, machines);
  Reordering found = reordered(program, machines.cluster(), kPlanOrderBudget);
  const OrderSearch search = summary(found);
  return {std::move(found.program), search};
}

Program lowered(const ModelSpec& model, const Workload& workload, StageClusters& machines, const Candidate& candidate) {
  Program listed = lower_iteration(model, workload, candidate, machines.cluster().ranks_per_node());
  if (candidate.order == OperationOrder::Listed) return listed;
  return searched_order(listed, machines).program;
}

}  // namespace moeplan::planner
