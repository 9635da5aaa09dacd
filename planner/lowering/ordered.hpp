// Lowering with the candidate's order of operations in each block: as lowering lists them, or as found by the exact
// search (planner/ordering/reorder.hpp).
//
// The search assumes that every operation takes the time that it takes alone. Link sharing and the slowdown under
// concurrent communication only appear in simulation, so the search for plans simulates both orders and keeps the
// faster one.
#pragma once

#include <string_view>

#include "model/costs/stage_clusters.hpp"
#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// The budget in states of the order search for one block of a plan. assumed: enough for nearly all blocks of up to 30
/// operations (docs/exact_order.md), some ten milliseconds.
inline constexpr std::int64_t kPlanOrderBudget = 5'000;

/// Statistics of the order search on a Program, with operations as long as alone.
struct OrderSearch {
  std::string_view answered_by = "listed";  // "exact", "heuristic", or "listed": no block could be searched
  std::int64_t blocks = 0;                  // blocks in the Program
  std::int64_t fixed = 0;                   // blocks whose dependencies allow only one order
  std::int64_t improved = 0;                // blocks for which a faster order was found
  std::int64_t states = 0;                  // visited states over all blocks
  bool operator==(const OrderSearch&) const = default;
};

/// A Program and its order search.
struct SearchedOrder {
  Program program;  // with the improved blocks reordered
  OrderSearch search;
};

/// Searches the blocks of a Program. With a pipeline they are searched on the cluster of one stage if the clusters of
/// all stages are provably equivalent; otherwise all blocks keep their listed order.
[[nodiscard]] SearchedOrder searched_order(const Program& program, StageClusters& machines);

/// lower_iteration(); for OperationOrder::Searched, with the order of searched_order(). Deterministic.
/// `infeasibility()` must be none.
[[nodiscard]] Program lowered(const ModelSpec& model, const Workload& workload, StageClusters& machines,
                              const Candidate& candidate);

}  // namespace moeplan::planner
