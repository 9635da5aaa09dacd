// The structure of destination-uniform all-to-alls on a cluster, independent of the bytes
// (destination_uniform_traffic.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/machine/cluster.hpp"
#include "sim/traffic/route_blocks.hpp"

namespace moeplan::sim {

/// Raised where a cluster would need more memory or time than the limits allow, with the reason.
struct TooManyColumns {
  std::string reason;
};

/// The factored routes of a cluster with the links that the subtree problems keep and the sums of rates that they
/// watch.
///
/// The route of a flow (s, d) ascends from s towards the root until it joins the route from the root to d. A sum is one
/// of rates to the destinations whose routes a source joins at the same position: at the vertex above block b, going
/// down through b (its index is b), or inside a block, crossing from its terminal t to its terminal u (a "crossing";
/// numbered after all blocks).
struct DestinationUniformShape {
  using Index = RouteBlocks::Index;
  using Block = RouteBlocks::Block;

  /// A pair of ranks whose traffic does not use the fabric, and where in the fabric its routes would have joined.
  struct NearJoin {
    RankId src;
    RankId dst;
    Index sum;                 // the sum that includes dst for this source
    std::uint32_t first_step;  // index in DestinationUniformShape::steps
    std::uint32_t steps;       // number of vertices from the source up to the join
  };

  /// `c` must outlive this. Raises TooManyColumns.
  DestinationUniformShape(const Cluster& c, RouteBlocks&& f);

  /// Whether routes can join inside the block, rather than at its top.
  [[nodiscard]] bool has_crossings(const Block& b) const { return b.terminals > (b.top >= 0 ? 2U : 1U); }
  [[nodiscard]] Index crossing(std::size_t block, std::size_t t, std::size_t u) const {
    return static_cast<Index>(first_crossing[block] + t * factors.blocks[block].terminals + u);
  }
  [[nodiscard]] VertexId gpu(RankId r) const { return cluster.gpu_of_rank[r.index()]; }
  [[nodiscard]] std::span<const NearJoin> near_of(RankId dst) const {
    return std::span(near).subspan(first_near[dst.index()], first_near[dst.index() + 1] - first_near[dst.index()]);
  }
  [[nodiscard]] std::span<const Index> steps_of(const NearJoin& n) const {
    return std::span(steps).subspan(n.first_step, n.steps);
  }

  const Cluster& cluster;
  RouteBlocks factors;
  std::vector<double> capacity;             // by link, bytes/s
  std::vector<char> kept;                   // by link: it is a constraint of the subtree problems
  std::vector<std::size_t> first_crossing;  // by block
  std::size_t sums = 0;
  std::vector<Index> stands_for;  // by sum: for a crossing, the terminal whose crossing represents it; else -1
  std::vector<Index> members;     // by sum: the number of crossings that it represents
  std::vector<NearJoin> near;     // by destination
  std::vector<std::size_t> first_near;
  std::vector<Index> steps;                   // vertices, of all near pairs
  std::vector<std::vector<RankId>> subtrees;  // the ranks of each subtree of the root

 private:
  void number_crossings();
  void choose_kept();
  void join_near();
  NearJoin join(RankId src, RankId dst);
  void merge_crossings();
  void list_subtrees();

  std::vector<Index> depth_;  // by vertex: number of blocks between it and the root
};

}  // namespace moeplan::sim
