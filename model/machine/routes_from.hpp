// Routes from one GPU to all others, and the kinds of routes from several.
#pragma once

#include <cstdint>
#include <span>
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

/// Routes from some ranks to all, of which most cross links of the same orbits: each kind of route once.
struct DistinctRoutes {
  std::vector<const Route*> routes;               // the first of each kind, in the order of their first use
  std::vector<std::vector<std::int32_t>> number;  // by source and rank: index into `routes`; no links: -1
};

/// Routes that cross the same orbits link by link, to the same extent and with the same latency, are of one kind.
/// `orbit` is the orbit of each link; `from`, by source and rank, must outlive the result.
[[nodiscard]] DistinctRoutes distinct_routes(const std::vector<std::int32_t>& orbit,
                                             std::span<const std::vector<Route>> from);

}  // namespace moeplan
