// The search for the best plan: every feasible candidate is priced, the promising ones are simulated.
//
// 1. Enumerate degrees and schedules; what cannot run is counted by reason. Where the micro batch is "auto" it is the
//    largest that fits, in a pipeline the smallest; a pipeline's stages have one part of the model each. Where
//    recomputation is "auto" it is the least that fits, and more where that makes room for a larger micro batch.
// 2. Price each by its closed form and its lower bound (model/costs/estimate.hpp), and order by the closed form.
//    On many ranks those whose ranks differ (experts that do not divide, say) are set aside with a bound by one rank.
// 3. Of the best pipelines, price those with other micro batches and with interleaved stages too.
//    Of the best of all, look for other ways to run their MoE layers (layer_search.hpp), and price the fastest.
// 4. Simulate in rounds of fixed size, best closed form first; after each round drop the candidates whose lower bound
//    is not below the best simulated time. Rounds, not threads, decide what is dropped, so the result does not depend
//    on the number of threads.
// 5. Those set aside are priced and simulated, least bound first, as long as that bound is below the best time.
// 6. Where MoE layers are of several kinds, let each kind run in its own way (strategies_by_kind.hpp) in the best
// candidate.
// 7. Search the order of operations in the blocks of the fastest ones (lowered.hpp), and simulate what it finds: where
//    that is faster than the listed order, it becomes a candidate of its own.
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

/// What the user fixed; what is absent is searched.
struct SearchSpace {
  std::optional<std::string> schedule = {};
  // How rows travel: names of planner/all_to_all.hpp, planner/codec.hpp.
  std::optional<std::string> all_to_all = {}, codec = {};
  std::optional<std::int64_t> pipeline_degree = {};
  std::optional<std::int64_t> tp = {}, cp = {}, ep = {}, esp = {}, dp = {}, edp = {}, pp = {};
  std::int64_t most_refined = 48;               // pipelines of which other micro batches and interleaving are tried
  std::int64_t most_simulated = 64;             // candidates; the rest keep their closed form
  std::int64_t asymmetric_rank_threshold = 64;  // of a stage: from so many on candidates whose ranks differ are set
                                                // aside at first. assumed: fewer are priced in some milliseconds
  std::int64_t most_deferred = 32;              // of those set aside because their ranks differ, priced after all
  std::int64_t most_varied = 6;   // candidates of which other ways to run the MoE layers are simulated, layers alone
  std::int64_t most_ordered = 3;  // simulated candidates whose order of operations is searched
  int threads = 0;                // 0: one a core
};

struct Evaluated {
  Candidate candidate;
  MemoryUse memory;
  Estimate estimate;
  std::optional<SimTime> makespan;  // simulated
  OrderSearch order = {};           // "listed" unless this candidate's order was searched

  /// Whose answer the order is: the search's, "heuristic" too where it found another order that is not in use because
  /// it is no faster simulated.
  [[nodiscard]] std::string_view order_answered_by() const {
    return order.improved > 0 && candidate.order == kListedOrder ? "heuristic" : order.answered_by;
  }
};

/// How far the candidate that came nearest to fitting missed: says what to change. Of those whose weights and states
/// fit, the one that needs least; where there are none, the one with the least of these.
struct NearestMiss {
  Candidate candidate;
  MemoryUse memory;
};

struct SearchResult {
  std::vector<Evaluated>
      ranked;  // simulated ones by makespan, then the others by closed form; empty: nothing is feasible
  std::map<std::string, std::int64_t> rejected;  // by reason
  std::int64_t enumerated = 0;
  std::int64_t simulated = 0;
  std::int64_t deferred = 0;                // feasible, not priced because their bound was worse; not among `ranked`
  std::int64_t pruned = 0;                  // not simulated because their bound or their closed form was worse
  std::int64_t undecided_strategies = 0;    // ways to run MoE layers that could be faster and take too long to simulate
  Seconds global_bound;                     // over every feasible candidate, whichever way it runs its MoE layers
  std::optional<NearestMiss> nearest_miss;  // where memory was what ruled candidates out
  std::optional<Recompute> fits_with;       // nothing is feasible, but something would be with so much recomputation
};

/// `progress` is told (done, total) from the calling thread.
[[nodiscard]] SearchResult search(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                  const SearchSpace& space,
                                  const std::function<void(std::int64_t, std::int64_t)>& progress = {});

/// Simulated ones first, the fastest before; the others as they were.
void sort_by_makespan(std::vector<Evaluated>& ranked);

/// Brings the best candidate of each idea to the front, in their order, until there are `count` of them: candidates of
/// one idea share schedule, parallel degrees, rank order and recomputation, and differ in micro batch, interleaving or
/// sequence parallelism.
void bring_ideas_forward(std::vector<Evaluated>& ranked, std::size_t count);

}  // namespace moeplan::planner
