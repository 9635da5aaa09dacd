// The search for the best plan: every feasible candidate is priced, and the most promising ones are simulated.
//
// 1. Enumerate degrees and schedules; infeasible candidates are counted by reason. A micro batch of "auto" is the
//    largest that fits, or with a pipeline the smallest; each stage of a pipeline has one part of the model.
//    Recomputation of "auto" is the least that fits, and more where that makes room for a larger micro batch.
// 2. Price each candidate by its closed form and its lower bound (model/costs/estimate.hpp), and sort by the closed
//    form. On many ranks, candidates whose ranks differ (because experts do not divide evenly, for example) are
//    deferred with a bound computed for one rank.
// 3. For the best pipelines, also price other micro batches and interleaved stages. For the best candidates overall,
//    look for other strategies for their MoE layers (layer_search.hpp), and price the fastest.
// 4. Simulate in rounds of fixed size, best closed form first; after each round drop the candidates whose lower bound
//    is not below the best simulated time. Pruning depends on rounds, not on threads, so the result does not depend on
//    the number of threads.
// 5. Price and simulate deferred candidates, least bound first, while the bound is below the best time.
// 6. If MoE layers are of several kinds, choose a strategy for each kind (strategies_by_kind.hpp) in the best
//    candidate.
// 7. Search the order of operations in the blocks of the fastest candidates (planner/lowering/ordered.hpp) and simulate
//    the result: if it is faster than the listed order, it becomes a candidate of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/analysis/timeline.hpp"
#include "model/costs/estimate.hpp"
#include "model/costs/memory.hpp"
#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/lowering/ordered.hpp"

namespace moeplan::planner {

/// The choices that the user fixed, and the limits of the search; absent choices are searched.
struct SearchSpace {
  std::optional<std::string> schedule = {};
  // Names of planner/layer/all_to_all.hpp and model/costs/codec.hpp.
  std::optional<std::string> all_to_all = {}, codec = {};
  std::optional<std::int64_t> pipeline_degree = {};
  std::optional<std::int64_t> tp = {}, cp = {}, ep = {}, esp = {}, dp = {}, edp = {}, pp = {};
  std::int64_t most_refined = 48;    // pipelines for which other micro batches and interleaving are tried
  std::int64_t most_simulated = 64;  // candidates to simulate; the rest keep their closed form
  /// The number of ranks per stage from which on candidates whose ranks differ are deferred. assumed: with fewer ranks
  /// a candidate is priced in some milliseconds.
  std::int64_t asymmetric_rank_threshold = 64;
  std::int64_t most_deferred = 32;  // deferred candidates that are priced after all
  std::int64_t most_varied = 6;     // candidates whose MoE layers are simulated alone with other strategies
  std::int64_t most_ordered = 3;    // simulated candidates whose order of operations is searched
  int threads = 0;                  // 0: one per core
};

/// A candidate with its predicted memory and time.
struct Evaluated {
  Candidate candidate;
  MemoryUse memory;
  Estimate estimate;
  std::optional<SimTime> makespan;  // simulated; absent if only priced
  OrderSearch order = {};           // "listed" unless this candidate's order was searched

  /// The origin of the order in use. It is the search's answer, or "heuristic" if the search found a better order that
  /// is not in use because its simulation was no faster.
  [[nodiscard]] std::string_view order_answered_by() const {
    return order.improved > 0 && candidate.order == kListedOrder ? "heuristic" : order.answered_by;
  }
};

/// The infeasible candidate that came closest to fitting in memory; it shows what to change. Among the candidates whose
/// weights and states fit, it is the one that needs the least memory; if there are none, it is the one whose weights
/// and states need the least.
struct NearestMiss {
  Candidate candidate;
  MemoryUse memory;
};

/// The outcome of a search.
struct SearchResult {
  /// Simulated candidates by makespan, then the others by closed form; empty if no candidate is feasible.
  std::vector<Evaluated> ranked;
  std::map<std::string, std::int64_t> rejected;  // number of infeasible candidates by reason
  std::int64_t enumerated = 0;
  std::int64_t simulated = 0;
  std::int64_t deferred = 0;                // feasible, but not priced because their bound was worse; not in `ranked`
  std::int64_t pruned = 0;                  // not simulated because their bound or their closed form was worse
  std::int64_t undecided_strategies = 0;    // strategies that might be faster but take too long to simulate
  Seconds global_bound;                     // over every feasible candidate with any strategies for its MoE layers
  std::optional<NearestMiss> nearest_miss;  // if memory ruled candidates out
  std::optional<Recompute> fits_with;       // no candidate is feasible, but one would be with this much recomputation
};

/// Searches the space. `progress` receives (done, total) on the calling thread.
[[nodiscard]] SearchResult search(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                  const SearchSpace& space,
                                  const std::function<void(std::int64_t, std::int64_t)>& progress = {});

/// Sorts simulated candidates first, by makespan; the others keep their order.
void sort_by_makespan(std::vector<Evaluated>& ranked);

/// Moves the best candidate of each idea to the front, in their order, until there are `count` of them. Candidates of
/// one idea share schedule, parallel degrees, rank order and recomputation, and differ in micro batch, interleaving or
/// sequence parallelism.
void bring_ideas_forward(std::vector<Evaluated>& ranked, std::size_t count);

}  // namespace moeplan::planner
