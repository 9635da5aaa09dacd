// The routes between all ranks of a cluster, factored so that no size grows with the number of pairs.
//
// GPUs do not forward, so every route stays in one network: a connected set of switches and NICs, or a direct link
// between two GPUs. One network, the fabric, connects all ranks. Take the fabric as an undirected graph and decompose
// it into its biconnected components ("blocks") and the vertices that they share (J. Hopcroft, R. Tarjan, "Efficient
// algorithms for graph manipulation", CACM 16, 1973). Blocks and shared vertices form a tree. A path from s to d passes
// exactly once through each shared vertex between them, so the fewest-hop paths from s to d are all combinations of
// fewest-hop paths between consecutive shared vertices, one block at a time. A transfer is split equally over paths,
// hence in each block as if the block were alone. Which paths have the highest bandwidth could depend on the whole
// route; therefore all fewest-hop paths between two terminals of a block must have equal bandwidth, or the cluster is
// not factored.
//
// Pairs of ranks that another network connects as well (an NVSwitch, a direct NVLink) are listed individually.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "model/base/ids.hpp"
#include "model/machine/cluster.hpp"
#include "sim/network/network.hpp"
#include "sim/traffic/networks.hpp"

namespace moeplan::sim {

/// The block tree of a cluster's fabric, and the pairs of ranks that do not use the fabric.
struct RouteBlocks {
  using Index = std::int32_t;

  /// A biconnected component. `top` is its vertex nearest to the root. Its terminals are the vertices through which
  /// ranks are reached: the top first, then those that are ranks or have ranks behind them. The root of the tree is a
  /// vertex, or the block without a top.
  struct Block {
    Index top;  // a vertex; -1 if this block is the root
    std::uint32_t first_terminal;
    std::uint32_t terminals;
    std::uint32_t first_route;
    std::int64_t ranks;  // at and behind all terminals except the top
  };
  std::vector<Block> blocks;  // parents first, blocks with the same top adjacent
  std::vector<Index> terminals;
  std::vector<Index> block_of;  // by vertex: the block between it and the root; -1 for the root and outside the fabric
  std::vector<Index> place_of;  // by vertex: its position among the terminals of that block
  std::vector<std::int64_t> ranks;  // by vertex: number of ranks at it and behind it, seen from the root
  std::vector<std::uint32_t> route_begin;
  std::vector<FlowUse> route_uses;
  NearFlows near;

  [[nodiscard]] std::span<const Index> terminals_of(const Block& b) const {
    return std::span(terminals).subspan(b.first_terminal, b.terminals);
  }
  /// The links on the routes from the i-th to the j-th terminal of the block, each with the fraction that crosses it.
  [[nodiscard]] std::span<const FlowUse> route(const Block& b, std::size_t i, std::size_t j) const {
    const std::size_t r = b.first_route + i * b.terminals + j;
    return std::span(route_uses).subspan(route_begin[r], route_begin[r + 1] - route_begin[r]);
  }
  [[nodiscard]] std::span<const FlowUse> uses_of(const NearFlow& f) const {
    return std::span(near.uses).subspan(f.first_use, f.uses);
  }
};

/// Factors the routes of a cluster. O(links + near pairs + steps of the searches inside blocks). Returns the reason as
/// text if the cluster cannot be factored within these limits: 8 million near pairs, 16 million pairs of terminals,
/// 34 million links on their routes, 2e9 search steps.
[[nodiscard]] std::variant<RouteBlocks, std::string> route_blocks(const Cluster& cluster);

}  // namespace moeplan::sim
