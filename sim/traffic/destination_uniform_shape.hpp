// What an all-to-all by column on a cluster looks like before any bytes are known (column_traffic.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/machine/cluster.hpp"
#include "sim/traffic/route_blocks.hpp"

namespace moeplan::sim {

/// The cluster needs more memory or time than is allowed.
struct TooManyColumns {
  std::string reason;
};

/// A sum is one of rates to destinations that a source meets at the same place: the vertex above block b, coming down
/// through b (its number is b), or in a block, from its terminal t to its terminal u (numbered after all blocks).
struct DestinationUniformShape {
  using Index = RouteBlocks::Index;
  using Block = RouteBlocks::Block;

  /// A pair that does not use the fabric, and where in the fabric it would have met.
  struct NearJoin {
    RankId src;
    RankId dst;
    Index sum;                 // of the destinations that its source would have joined
    std::uint32_t first_step;  // vertices on the source's way up, up to the meeting
    std::uint32_t steps;
  };

  /// `c` must outlive this. Raises TooManyColumns.
  DestinationUniformShape(const Cluster& c, RouteBlocks&& f);

  /// Whether flows may meet in the block, rather than at its top.
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
  std::vector<double> capacity;             // by link
  std::vector<char> kept;                   // by link
  std::vector<std::size_t> first_crossing;  // by block
  std::size_t sums = 0;
  std::vector<Index> stands_for;  // by sum: for a crossing, the terminal whose crossing stands for it
  std::vector<Index> members;     // by sum: for how many it stands
  std::vector<NearJoin> near;     // by destination
  std::vector<std::size_t> first_near;
  std::vector<Index> steps;
  std::vector<std::vector<RankId>> limbs;

 private:
  void number_crossings();
  void choose_kept();
  void join_near();
  NearJoin join(RankId src, RankId dst);
  void merge_crossings();
  void list_limbs();

  std::vector<Index> depth_;  // by vertex: blocks between it and the root
};

}  // namespace moeplan::sim
