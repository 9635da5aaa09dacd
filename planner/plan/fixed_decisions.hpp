// Decisions that are not searched, under their keys in plan files.
#pragma once

#include <string>
#include <vector>

#include "model/base/diagnostics.hpp"
#include "model/machine/cluster.hpp"
#include "model/text/document.hpp"
#include "model/workload/workload.hpp"
#include "planner/search/search_space.hpp"

namespace moeplan::planner {

/// The keys of a plan file's decisions that a search can be given. The others are the workload's (recompute,
/// micro_batch), or always found by the search (rank_order, runs, order, expert_places).
[[nodiscard]] std::vector<std::string> fixable_decisions();

/// Fixes decisions, a map of such keys with values as in a plan file, in a search space; placement may be `auto`,
/// which fixes nothing. The space has `placements`.
void fix_decisions(const Node& decisions, SearchSpace& space, Diagnostics& wrong);

/// Raises InputError, under the name `key`, if the all-to-all is that of a dispatcher whose kernels were not measured
/// on the cluster: it is not priced as something else.
void check_dispatcher(const SearchSpace& space, const Cluster& cluster, const std::string& key);

/// Raises InputError, under the name `key`, if the codec loses digits that the workload does not allow it to.
void check_codec(const SearchSpace& space, const Workload& workload, const std::string& key);

}  // namespace moeplan::planner
