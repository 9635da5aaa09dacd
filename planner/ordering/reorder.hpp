// A Block's operations in the best order: the same operations, listed so that its streams work in the order that ends
// the block first.
//
// Operations take the time that they take alone, so what sharing links and slowing beside communication change is left
// out, and bounds here bound no simulated time: simulate what comes out beside what went in and keep the faster one.
// Working memory may change, too.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"
#include "planner/ordering/exact_order.hpp"

namespace moeplan::planner {

/// Why a block's order is not searched; "" if it can be. When messages arrive, and when a background operation of the
/// block ends that the block itself waits for, is not known to a block alone; more than kMostOrderTasks operations are
/// too many.
[[nodiscard]] std::string_view order_infeasibility(const Block& block);

/// Whether two slices may hold the same rows. Rows of one buffer are told apart where the ways to their sources differ
/// by chunks, or by blocks of a union, of the same count, or by the position of their holders.
[[nodiscard]] bool may_overlap(const Slice& a, const Slice& b);

/// The block as a problem of ordering, `durations` by operation. An operation comes after those of its `after` list,
/// and after those before it, by dependencies or by the order of a stream, whose data it shares (one of the two
/// writing), and after waits. Operations on background streams hold up nobody: they take no time, and keep their order
/// on their stream and behind the waits for it. order_infeasibility() must be none.
[[nodiscard]] OrderProblem order_problem(const Block& block, std::span<const SimTime> durations);

/// Whether the precedences leave one order alone, background operations apart: every other task comes directly after
/// the one listed before it.
[[nodiscard]] bool has_one_order(const Block& block, const OrderProblem& problem);

/// The block with its operations in this order, which keeps to the precedences of order_problem(). What the old order
/// of a stream made sure of and the new one does not is added to `after`.
[[nodiscard]] Block with_order(const Block& block, std::span<const std::int32_t> order);

/// The time of each operation of a block while nothing else runs, of the slowest rank that runs it: what simulating the
/// operation alone gives (all groups of a communication at once); of background operations, and of waits for those of
/// earlier blocks, nothing. order_infeasibility() must be none.
[[nodiscard]] std::vector<SimTime> durations_alone(const Program& program, BlockId block, const Cluster& cluster);

/// What the search says about a block.
struct BlockOrder {
  BlockId block;
  SimTime listed;       // makespan of the order that it had, operations as long as alone
  SimTime best;         // of the best order found; less than `listed`: the block was changed
  SimTime lower_bound;  // of every order
  bool proved = false;  // `best` is exact
  std::int64_t nodes = 0;
  std::vector<std::int32_t> order;  // of the operations now, by their places before
};

/// The program with its blocks reordered where that helps.
struct Reordering {
  Program program;
  std::vector<BlockOrder> blocks;
  std::vector<BlockId> fixed;                         // not searched, since there is one order alone
  std::vector<std::pair<BlockId, std::string>> left;  // not searched, and why
  bool equal_ranks = false;  // provably (equal_ranks_view): no rank waits for a slower one, so `best` is a makespan

  [[nodiscard]] bool is_changed() const;
  /// "exact" if there was nothing to choose, or ranks are equal and the order of every block is proved, else
  /// "heuristic".
  [[nodiscard]] std::string_view answered_by() const;
};

/// All blocks of a program; `budget` for each. Where ranks differ, an operation counts with its slowest rank's time.
/// Simulates every operation of the searched blocks once, alone.
[[nodiscard]] Reordering reordered(const Program& program, const Cluster& cluster, std::int64_t budget = kOrderBudget);

}  // namespace moeplan::planner
