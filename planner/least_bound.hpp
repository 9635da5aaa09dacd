// What no candidate can take less than, whichever way it runs its MoE layers.
#pragma once

#include <vector>

#include "model/specs/cluster.hpp"
#include "model/specs/model_spec.hpp"
#include "model/specs/workload.hpp"
#include "planner/search.hpp"

namespace moeplan {

/// A candidate that fits and whose ranks differ: to price it takes long, to bound it does not.
struct SetAside {
  Evaluated evaluated;  // without an estimate
  Seconds bound;
};

/// A lower bound of all these candidates, and of the ways to run their MoE layers that the space leaves open and that
/// were not priced: none is faster than the work that all have in common, nor, where all layers run in one way, than
/// the busiest link under any all-to-all with the smallest codec. `ranked` is not empty; the result does not depend on
/// `threads`.
[[nodiscard]] Seconds least_bound(const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                                  const SearchSpace& space, const std::vector<Evaluated>& ranked,
                                  const std::vector<SetAside>& set_aside, int threads);

}  // namespace moeplan
