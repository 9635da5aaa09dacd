// The result of a search: ranked candidates, and the counts of all others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/evaluation/evaluation.hpp"

namespace moeplan::planner {

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
  std::int64_t deferred = 0;   // feasible, but not priced because their bound was worse; not in `ranked`
  std::int64_t undecided = 0;  // of these, those that may be faster than the best but take too long to simulate
  std::int64_t unpriced = 0;   // ruled out by a bound before memory and time were computed
  std::int64_t pruned = 0;     // not simulated because their bound or their closed form was worse
  std::int64_t undecided_strategies = 0;  // strategies that might be faster but take too long to simulate
  Seconds global_bound{};  // over every feasible candidate with any strategies for its MoE layers; 0 if not wanted
  bool is_cut = false;  // by SearchSpace::is_out_of_time: other candidates might be faster, none below the global bound
  std::optional<NearestMiss> nearest_miss;  // if memory ruled candidates out
  std::optional<Recompute> fits_with;       // no candidate is feasible, but one would be with this much recomputation
};

/// Sorts simulated candidates first, by makespan; the others keep their order.
void sort_by_makespan(std::vector<Evaluated>& ranked);

/// Candidates of one idea share schedule, parallel degrees, rank order and recomputation, and differ in micro batch,
/// stages (interleaved, in a V), overlap of microbatches or sequence parallelism.
[[nodiscard]] bool is_same_idea(const Candidate& a, const Candidate& b);

/// Moves the best candidate of each idea to the front until there are `count` of them, where there are fewer ideas also
/// others, and sorts these by makespan.
void bring_ideas_forward(std::vector<Evaluated>& ranked, std::size_t count);

}  // namespace moeplan::planner
