// What no candidate can take less than, whichever way it runs its MoE layers.
#pragma once

#include <vector>

#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/search/search.hpp"

namespace moeplan::planner {

/// A candidate that fits and whose ranks differ: to price it takes long, to bound it does not.
struct Deferred {
  Evaluated evaluated;  // without an estimate
  Seconds bound;
};

/// A lower bound of all these candidates, and of the ways to run their MoE layers that the space leaves open and that
/// were not priced: none is faster than the work that all have in common, nor, where all layers run in one way, than
/// the busiest link under any all-to-all with the smallest codec. `ranked` is not empty; the result does not depend on
/// `threads`.
[[nodiscard]] Seconds global_bound(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                   const SearchSpace& space, const std::vector<Evaluated>& ranked,
                                   const std::vector<Deferred>& deferred, int threads);

}  // namespace moeplan::planner
