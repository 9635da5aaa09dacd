// Reordering of a Block: the same operations, listed in the order with which the block's streams finish first.
//
// Every operation counts with the time that it takes alone. Link sharing and the slowdown of kernels under concurrent
// communication are ignored, so the bounds here do not bound simulated times: simulate the block before and after and
// keep the faster order. The order may also change the working memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/infeasibility.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"
#include "planner/ordering/exact_order.hpp"

namespace moeplan::planner {

/// The reason why a block's order cannot be searched; none if it can. A block by itself determines neither the arrival
/// of messages nor the end of a background operation of its own that it waits for; and it may have at most
/// kMostOrderTasks operations.
[[nodiscard]] std::optional<Infeasibility> order_infeasibility(const Block& block);

/// Whether two slices may share rows. Slices of one buffer are known to be disjoint if their paths to the sources
/// differ in the chunk, or in the block of a union, out of the same number, or in the position of their holders.
[[nodiscard]] bool may_overlap(const Slice& a, const Slice& b);

/// The block as an ordering problem; `durations` by operation. An operation comes after those in its `after` list,
/// after earlier operations (by dependencies or by stream order) with which it shares data that one of the two writes,
/// and after waits. Operations on background streams delay no other operation: they take no time, and keep their order
/// on their stream and relative to the waits for it. order_infeasibility() must be none.
[[nodiscard]] OrderProblem order_problem(const Block& block, std::span<const SimTime> durations);

/// Whether the precedences allow only one order, background operations aside: every other task directly follows the one
/// listed before it.
[[nodiscard]] bool has_one_order(const Block& block, const OrderProblem& problem);

/// The block with its operations in this order, which must respect the precedences of order_problem(). Precedences that
/// the old order of a stream implied and the new one does not are added to `after`.
[[nodiscard]] Block with_order(const Block& block, std::span<const std::int32_t> order);

/// The time of each operation of a block on an otherwise idle cluster, on the slowest rank that runs it. It equals the
/// simulated time of the operation alone (all groups of a communication at once); zero for background operations and
/// for waits on those of earlier blocks. order_infeasibility() must be none.
[[nodiscard]] std::vector<SimTime> durations_alone(const Program& program, BlockId block, const Cluster& cluster);

/// The search result for one block.
struct BlockOrder {
  BlockId block;
  SimTime listed;       // makespan of the original order, every operation taking the time that it takes alone
  SimTime best;         // makespan of the best order found; if less than `listed`, the block was changed
  SimTime lower_bound;  // over all orders
  bool proved = false;  // `best` is exact
  std::int64_t nodes = 0;
  std::vector<std::int32_t> order;  // the new order, as indices into the original list
};

/// A Program with the blocks reordered that gain from it.
struct Reordering {
  Program program;
  std::vector<BlockOrder> blocks;
  std::vector<BlockId> fixed;                           // blocks that were not searched because only one order exists
  std::vector<std::pair<BlockId, Infeasibility>> left;  // blocks that were not searched, with the reason
  bool equal_ranks = false;  // proved by equal_ranks_view: no rank waits for a slower one, so `best` is a makespan

  [[nodiscard]] bool is_changed() const;
  /// "exact" if there was no choice, or if ranks are equal and the order of every block is proved optimal; otherwise
  /// "heuristic".
  [[nodiscard]] std::string_view answered_by() const;
};

/// Reorders all blocks of a Program, with `budget` states for each. Where ranks differ, an operation counts with its
/// slowest rank's time. Every operation of the searched blocks is simulated once, alone.
[[nodiscard]] Reordering reordered(const Program& program, const Cluster& cluster, std::int64_t budget = kOrderBudget);

}  // namespace moeplan::planner
