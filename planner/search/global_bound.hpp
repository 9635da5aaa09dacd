// A lower bound on the iteration time over all candidates and all strategies for their MoE layers.
#pragma once

#include <vector>

#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/search/search.hpp"

namespace moeplan::planner {

/// A candidate that fits in memory and whose ranks differ: expensive to price but cheap to bound.
struct Deferred {
  Evaluated evaluated;  // without an estimate
  Seconds bound;
};

/// A lower bound over all these candidates, including the strategies for their MoE layers that `space` leaves open and
/// that were not priced. None of these is faster than the work that all strategies have in common nor, if all layers
/// use one strategy, than the busiest link under any all-to-all with the smallest codec. `ranked` must not be empty.
/// The result does not depend on `threads`.
[[nodiscard]] Seconds global_bound(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                   const SearchSpace& space, const std::vector<Evaluated>& ranked,
                                   const std::vector<Deferred>& deferred, int threads);

}  // namespace moeplan::planner
