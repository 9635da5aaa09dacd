// Fewest-hop routes between the terminals of one block of a network (route_blocks.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/machine/topology.hpp"
#include "sim/network/network.hpp"

namespace moeplan::sim {

/// Raised where a cluster's routes cannot be factored, with the reason.
struct NotFactored {
  std::string reason;
};

/// A route search inside one block at a time. Vertices are given by their index in the topology.
class BlockRoutes {
 public:
  using Index = std::int32_t;

  /// `topology` must outlive this.
  explicit BlockRoutes(const Topology& topology);

  /// Selects the block of these vertices and links; `vertices` must remain valid while the block is selected.
  void begin(std::span<const Index> vertices, std::span<const LinkId> links);

  /// Counts the fewest-hop paths from one vertex by breadth-first search until all terminals are reached. Raises
  /// NotFactored after 2e9 steps over all blocks.
  void find_from(Index source, std::span<const Index> terminals);

  /// Appends the links of all fewest-hop paths to `target`, in order from the source, each with the fraction of a
  /// transfer that crosses it. Raises NotFactored if there is no path, if the paths differ in bandwidth or number more
  /// than 1e300, or if `uses` exceeds its limit (512 MiB).
  void append_route_to(Index target, std::vector<FlowUse>& uses);

  /// Raises NotFactored: there are too many paths between so many vertices.
  [[noreturn]] static void refuse(std::size_t vertices);

 private:
  // Internally, a vertex is its index in the block's list.
  struct Arc {
    Index from;
    Index to;
    LinkId link;
  };
  struct Reached {
    Index hops = -1;
    double paths = 0;
    double narrowest = 0;  // lowest bandwidth of a path, bytes/s
    double widest = 0;     // highest
  };

  const Topology& topology_;
  std::vector<Index> place_;  // by vertex of the topology: its index in the block
  std::span<const Index> vertices_;
  std::vector<Arc> arcs_;
  std::vector<std::size_t> first_arc_;
  Index source_ = 0;
  std::vector<Reached> reached_;
  std::vector<Arc> into_;  // arcs of fewest-hop paths, by target
  std::vector<std::size_t> first_into_;
  std::vector<double> carried_;
  std::vector<Index> front_, next_;
  double steps_ = 0;
};

}  // namespace moeplan::sim
