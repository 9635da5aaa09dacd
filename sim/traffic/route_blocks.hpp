// The routes between all ranks of a cluster, factored: nothing of it grows with the number of pairs.
//
// GPUs do not forward, so every route stays in one network: a connected set of switches and NICs, or a direct link of
// two GPUs. One network, the fabric, joins all ranks. Take the fabric as an undirected graph and cut it into blocks
// (its maximal parts that no single vertex parts) and the vertices that they share (J. Hopcroft, R. Tarjan, "Efficient
// algorithms for graph manipulation", CACM 16, 1973). Blocks and shared vertices form a tree. A path from s to d passes
// through the shared vertices on the way between them, each exactly once, so that the fewest-hop paths from s to d are
// all combinations of fewest-hop paths between consecutive shared vertices, one block at a time. A transfer is split
// equally over paths, hence in each block as if it were alone there. Which paths are widest could depend on the whole
// way: so all fewest-hop paths between two terminals of a block must be equally wide, or the cluster is not factored.
//
// Pairs of ranks that another network joins too (an NVSwitch, a direct NVLink) are listed one by one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "model/base/ids.hpp"
#include "model/machine/cluster.hpp"
#include "sim/network/network.hpp"

namespace moeplan::sim {

struct RouteBlocks {
  using Index = std::int32_t;

  /// A block hangs on its `top`, nearer to the root. Its terminals are the vertices by which ranks are reached: the top
  /// first, then those that have ranks behind them or are ranks. The root is a vertex, or else the block without a top.
  struct Block {
    Index top;  // vertex; -1: this block is the root
    std::uint32_t first_terminal;
    std::uint32_t terminals;
    std::uint32_t first_route;
    std::int64_t ranks;  // on all terminals but the top
  };
  /// A pair that does not use the fabric, and the network that it uses instead.
  struct NearFlow {
    RankId src;
    RankId dst;
    Index network;
    std::uint32_t first_use;
    std::uint32_t uses;
  };

  std::vector<Block> blocks;  // each after the one it hangs on, those of one top next to one another
  std::vector<Index> terminals;
  std::vector<Index> block_of;      // by vertex: the block between it and the root; -1 for the root and what is outside
  std::vector<Index> place_of;      // by vertex: which terminal it is there
  std::vector<std::int64_t> ranks;  // by vertex: at it and behind it, as seen from the root
  std::vector<std::uint32_t> route_begin;
  std::vector<FlowUse> route_uses;
  std::vector<NearFlow> near;  // by network, then source and destination
  std::vector<FlowUse> near_uses;

  [[nodiscard]] std::span<const Index> terminals_of(const Block& b) const {
    return std::span(terminals).subspan(b.first_terminal, b.terminals);
  }
  /// What crosses which link of the block between its i-th and its j-th terminal.
  [[nodiscard]] std::span<const FlowUse> route(const Block& b, std::size_t i, std::size_t j) const {
    const std::size_t r = b.first_route + i * b.terminals + j;
    return std::span(route_uses).subspan(route_begin[r], route_begin[r + 1] - route_begin[r]);
  }
  [[nodiscard]] std::span<const FlowUse> uses_of(const NearFlow& f) const {
    return std::span(near_uses).subspan(f.first_use, f.uses);
  }
};

/// O(links + pairs that are near + steps of the searches inside blocks). The reason as text where the cluster cannot be
/// factored within limits: 8 million near pairs, 16 million pairs of terminals, 34 million links on their routes, 2e9
/// steps.
[[nodiscard]] std::variant<RouteBlocks, std::string> route_blocks(const Cluster& cluster);

}  // namespace moeplan::sim
