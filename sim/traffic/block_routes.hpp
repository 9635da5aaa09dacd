// Fewest-hop paths inside one block of a network (route_blocks.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/machine/topology.hpp"
#include "sim/network/network.hpp"

namespace moeplan::sim {

/// Why a cluster's routes cannot be factored.
struct NotFactored {
  std::string reason;
};

/// Serves one block after the other. Vertices are given by their number in the topology.
class BlockRoutes {
 public:
  using Index = std::int32_t;

  /// `topology` must outlive this.
  explicit BlockRoutes(const Topology& topology);

  /// Turns to the block of these vertices and links; `vertices` must outlive what follows.
  void begin(std::span<const Index> vertices, std::span<const LinkId> links);

  /// Counts the fewest-hop paths from one vertex, until all terminals are reached. Raises NotFactored after 2e9 steps
  /// over all blocks.
  void find_from(Index source, std::span<const Index> terminals);

  /// Appends the links of all those paths to `target`, with the share that crosses each, from the source on. Raises
  /// NotFactored where there is no path, where paths are not equally wide or more than 1e300, or where `uses` gets too
  /// long.
  void append_route_to(Index target, std::vector<FlowUse>& uses);

  /// Raises NotFactored: so many vertices have too many ways.
  [[noreturn]] static void refuse(std::size_t vertices);

 private:
  // Inside, vertices are places in the block's list.
  struct Arc {
    Index from;
    Index to;
    LinkId link;
  };
  struct Reached {
    Index hops = -1;
    double paths = 0;
    double narrowest = 0;  // of the paths
    double widest = 0;
  };

  const Topology& topology_;
  std::vector<Index> place_;  // by vertex
  std::span<const Index> vertices_;
  std::vector<Arc> arcs_;
  std::vector<std::size_t> first_arc_;
  Index source_ = 0;
  std::vector<Reached> reached_;
  std::vector<Arc> into_;  // arcs of fewest-hop paths, by where they lead
  std::vector<std::size_t> first_into_;
  std::vector<double> carried_;
  std::vector<Index> front_, next_;
  double steps_ = 0;
};

}  // namespace moeplan::sim
