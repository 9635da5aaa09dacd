// The enumeration of candidates: degrees, sequence parallelism, rank orders and schedules.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/candidate/candidate.hpp"
#include "planner/evaluation/problem.hpp"
#include "planner/search/search_result.hpp"
#include "planner/search/search_space.hpp"

namespace moeplan::planner {

/// The feasible candidates of a space whose weights and states fit in memory, and the counts of the others.
struct Enumeration {
  /// Each represents its variants with other micro batches (micro_batches()) and recomputation (recompute_levels()).
  /// With a pipeline, its own micro batch is the smallest feasible one.
  std::vector<Candidate> feasible;
  std::map<std::string, std::int64_t> rejected;  // by reason
  std::int64_t enumerated = 0;
  std::optional<NearestMiss> least_states;  // of those whose weights and states alone do not fit
};
[[nodiscard]] Enumeration enumerated(const Problem& problem, const SearchSpace& space);

/// The largest context-parallel size that is tried unless one is asked for: only long sequences are divided.
[[nodiscard]] std::int64_t most_context_parallel(const Workload& workload);

/// The micro batches to try, largest first: powers of two that divide a replica's batch, and the whole batch.
[[nodiscard]] std::vector<std::int64_t> micro_batches(const Workload& workload, const Degrees& degrees);

/// The recomputation levels to try, the least first: more recomputation only costs time, unless it makes room. Of sets
/// of modules without a name only those that the model has.
[[nodiscard]] std::vector<Recompute> recompute_levels(const Problem& problem, const SearchSpace& space);

/// Whether the candidate's experts are on several nodes.
[[nodiscard]] bool spans_nodes(const Problem& problem, const Candidate& candidate);

/// Whether the search may choose the overlap of this candidate's microbatches.
[[nodiscard]] bool may_overlap(const Problem& problem, const SearchSpace& space, const Candidate& overlapped);

/// The candidate with rows that go to each node once (node_dedup), if its experts span nodes and the search may choose
/// that.
[[nodiscard]] std::optional<Candidate> with_deduplicated_rows(const Problem& problem, const SearchSpace& space,
                                                              Candidate candidate);

}  // namespace moeplan::planner
