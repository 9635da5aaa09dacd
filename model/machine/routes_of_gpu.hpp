// Routes between one GPU and all others, and the kinds of routes from several.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/machine/topology.hpp"

namespace moeplan {

/// Shortest paths between one GPU and every other by a single search; uses Routes::between where there are several.
class RoutesOfGpu {
 public:
  enum class Direction { From, To };

  /// The routes from the GPU, or to it. `topology` and `routes`, which are those of the topology, must outlive this.
  RoutesOfGpu(const Topology& topology, const Routes& routes, VertexId gpu, Direction direction);

  /// The route to or from another GPU, as Routes::between gives it.
  [[nodiscard]] Route with(VertexId other) const;

 private:
  struct Reached {
    std::int32_t hops = -1;
    LinkId by{};
    bool is_several = false;
  };

  const Topology& topology_;
  const Routes& routes_;
  VertexId gpu_;
  Direction direction_;
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
