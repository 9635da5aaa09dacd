// The space of a search: the choices that the user fixed, and the limits of each round.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "model/base/in_parallel.hpp"
#include "model/costs/codec.hpp"
#include "planner/candidate/candidate.hpp"
#include "planner/frameworks/framework.hpp"
#include "planner/placement/strategies/placement_choice.hpp"

namespace moeplan::planner {

/// The options of the round that places experts (placement_search.hpp).
struct PlacementSpace {
  std::optional<PlacementChoice> placement = {};       // absent: contiguous, or `auto` where that is faster
  std::optional<std::int64_t> redundant_experts = {};  // absent: 0, 1, 2 and 4 are tried
  std::int64_t most_placed = 2;  // simulated candidates whose experts are placed; 8 if `placement` is given
  std::int64_t most_ranks = 64;  // per stage, unless `placement` is given: ranks differ under a placement
};

/// The choices that the user fixed, and the limits of the search; absent choices are searched.
struct SearchSpace {
  std::optional<BuiltIn<Schedule>> schedule = {};  // also one that is not in the table of schedules()
  std::optional<BuiltIn<AllToAll>> all_to_all = {};
  std::optional<CodecPair> codec = {};
  std::optional<std::int64_t> pipeline_degree = {};
  std::optional<std::int64_t> tp = {}, cp = {}, ep = {}, esp = {}, dp = {}, edp = {}, pp = {};
  std::optional<std::int64_t> virtual_stages = {};
  std::optional<bool> sequence_parallel = {};
  std::optional<Framework> framework = {};  // only what it runs
  std::optional<PipelineShape> pipeline = {};
  std::optional<bool> ep_overlap = {}, delays_weight_gradients = {};
  std::int64_t dispatcher_sms = 0;   // of all candidates
  PipelineLayout layout = {};        // if it has parts, their number is pp * virtual_stages
  std::int64_t most_refined = 48;    // pipelines for which other micro batches, interleaving and a V are tried
  std::int64_t most_simulated = 64;  // candidates to simulate; the rest keep their closed form
  /// The number of ranks per stage from which on candidates whose ranks differ are deferred. assumed: with fewer ranks
  /// a candidate is priced in some milliseconds.
  std::int64_t asymmetric_rank_threshold = 64;
  std::int64_t most_deferred = 32;  // deferred candidates that are priced after all
  /// Those with more flows between ranks in the exchanges of one microbatch stay deferred. assumed: simulations of more
  /// take minutes (156 million flows of 4,096 ranks that straddle racks: six).
  std::int64_t most_deferred_flows = 8'000'000;
  /// Those with more than this stay deferred, too, if their closed form is a fifth longer than the best time. assumed:
  /// simulations of fewer take up to five seconds.
  std::int64_t quick_deferred_flows = 2'000'000;
  std::int64_t most_varied = 6;    // candidates whose MoE layers are simulated alone with other strategies
  std::int64_t most_ordered = 3;   // simulated candidates whose order of operations is searched, or one more
  bool wants_global_bound = true;  // SearchResult::global_bound is found, which takes up to a third of the time
  int threads = 0;                 // 0: one per core
  /// Asked between rounds. Once it returns true and a candidate fits, the search ends with the best so far.
  /// Absent: the search runs to its end.
  std::function<bool()> is_out_of_time = {};
  /// The last round of the search; absent: all experts stay contiguous.
  std::optional<PlacementSpace> placements = {};

  /// `threads`, with 0 resolved.
  [[nodiscard]] int thread_count() const { return threads_or_cores(threads); }
};

}  // namespace moeplan::planner
