// The search for the best plan: every feasible candidate is priced, and the most promising ones are simulated.
//
// The search runs in rounds. A round proposes candidates, evaluates them (planner/evaluation/evaluation.hpp) as far as
// their lower bounds leave them a chance, and ranks them with the others (ranking.hpp):
//
// 1. Enumerate degrees and schedules; infeasible candidates are counted by reason. A micro batch of "auto" is the
//    largest that fits, or with a pipeline the smallest; each stage of a pipeline has one part of the model.
//    Recomputation of "auto" is the least that fits, and more where that makes room for a larger micro batch.
// 2. Price each candidate by its closed form and its lower bound (model/costs/estimate.hpp), and sort by the closed
//    form. On many ranks, candidates whose ranks differ (because experts do not divide evenly, for example) are
//    deferred with a bound computed for one rank. The first candidate whose turn comes by its closed form or, if it is
//    deferred, by its bound is simulated at once: no other one of degrees that were deferred is priced if its bound is
//    not below that time.
// 3. For the best pipelines, also price other micro batches and interleaved stages. For the best candidates overall,
//    price rows that go to each node once, look for other strategies for their MoE layers (layer_search.hpp), and price
//    the fastest.
// 4. Simulate in rounds of fixed size, best closed form first; after each round drop the candidates whose lower bound
//    is not below the best simulated time. Pruning depends on rounds, not on threads, so the result does not depend on
//    the number of threads.
// 5. Price and simulate deferred candidates, least bound first, while the bound is below the best time. Those whose
//    simulation would take minutes stay deferred and are counted, and so are those for which it would take many seconds
//    to confirm that they are slower, as their closed forms say clearly.
// 6. If MoE layers are of several kinds, choose a strategy for each kind (strategies_by_kind.hpp) in the best
//    candidate.
// 7. Search the order of operations in the blocks of the fastest candidates (planner/lowering/ordered.hpp) and simulate
//    the result: if it is faster than the listed order, it becomes a candidate of its own.
// 8. Place the experts of the fastest candidates (placement_search.hpp), if the space has placements.
//
// A search whose time is limited (SearchSpace::is_out_of_time) first prices some candidates from all over the list, so
// that its first plan is sensible. If it is cut, it still prices the eight of least bound with a pipeline and the eight
// without, and two deferred pipelines in step 5, but nothing more in steps 2, 3 and 5. It simulates its best candidate
// if it has simulated none, and the deferred one if that seems faster, and leaves out the steps that follow, but for a
// placement that is fixed. What it did not price still counts in the global bound.
#pragma once

#include <cstdint>
#include <functional>

#include "planner/evaluation/problem.hpp"
#include "planner/search/search_result.hpp"
#include "planner/search/search_space.hpp"

namespace moeplan::planner {

/// Searches the space. `progress` receives (done, total) on the calling thread.
[[nodiscard]] SearchResult search(const Problem& problem, const SearchSpace& space,
                                  const std::function<void(std::int64_t, std::int64_t)>& progress = {});

}  // namespace moeplan::planner
