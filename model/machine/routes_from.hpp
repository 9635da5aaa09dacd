// Routes from one GPU to all others.
#pragma once

#include <cstdint>
#include <vector>

#include "model/machine/topology.hpp"

namespace moeplan {

/// Shortest paths from one GPU to every other by a single search; uses Routes::between where there are several.
class RoutesFrom {
 public:
  /// `topology` and `routes`, which are those of the topology, must outlive this.
  RoutesFrom(const Topology& topology, const Routes& routes, VertexId source);

  /// The route to a GPU, as Routes::between gives it.
  [[nodiscard]] Route to(VertexId end) const;

 private:
  struct Reached {
    std::int32_t hops = -1;
    LinkId by{};
    bool is_several = false;
  };

  const Topology& topology_;
  const Routes& routes_;
  VertexId source_;
  std::vector<Reached> reached_;  // by vertex
};

}  // namespace moeplan
