// A candidate's Program, its blocks in the order of operations that the candidate decides: as lowering lists them, or
// as the exact search finds them (reorder.hpp).
//
// The search counts every operation as long as it takes alone. What sharing links and slowing beside communication add
// only simulation knows, so a search for plans simulates both orders and keeps the faster one.
#pragma once

#include <string_view>

#include "model/costs/stage_clusters.hpp"
#include "model/program/program.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// States that the search may visit for one block of a plan. assumed: enough for nearly all blocks of up to 30
/// operations (docs/exact_order.md), some ten milliseconds.
inline constexpr std::int64_t kPlanOrderBudget = 5'000;

/// What the search of orders says about a Program, operations as long as alone.
struct OrderSearch {
  std::string_view answered_by = "listed";  // "exact", "heuristic", or "listed": no block could be searched
  std::int64_t blocks = 0;                  // of the Program
  std::int64_t fixed = 0;                   // those whose dependencies leave one order alone
  std::int64_t improved = 0;                // those in which another order is faster
  std::int64_t states = 0;                  // visited, of all blocks
  bool operator==(const OrderSearch&) const = default;
};

struct SearchedOrder {
  Program program;  // the improved blocks reordered
  OrderSearch search;
};

/// Blocks of a pipeline are searched on the machine of one stage, where all stages' machines are provably alike; where
/// they are not, all stay as listed.
[[nodiscard]] SearchedOrder searched_order(const Program& program, StageClusters& machines);

/// lower_iteration(), for kSearchedOrder with the order of searched_order(). Deterministic. `infeasibility()` must be
/// none.
[[nodiscard]] Program lowered(const ModelSpec& model, const Workload& workload, StageClusters& machines,
                              const Candidate& candidate);

}  // namespace moeplan::planner
