// Upper bounds on what the sources of a destination-uniform all-to-all send over the links that the subtree problems
// omit (destination_uniform_traffic.hpp, (3)).
#pragma once

#include <optional>
#include <vector>

#include "sim/traffic/destination_uniform_shape.hpp"

namespace moeplan::sim {

/// Rates in bytes/s, each a maximum over time.
struct SourceRates {
  explicit SourceRates(const DestinationUniformShape& shape)
      : most(shape.sums, 0), less_up(shape.cluster.topology.vertices.size(), 0), less_across(shape.sums, 0) {}

  std::vector<double> most;         // by sum: the rates from one source
  std::vector<double> less_up;      // by vertex: reduction by near pairs of the rate that ascends from it
  std::vector<double> less_across;  // by sum: reduction by near pairs of the rate that crosses a block
};

/// A link that is no constraint of the subtree problems and that these rates might overload, if any.
[[nodiscard]] std::optional<ResourceId> overloaded_link(const DestinationUniformShape& shape, const SourceRates& rates);

}  // namespace moeplan::sim
