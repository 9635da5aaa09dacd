// The double binary tree: where the data of a tree collective goes.
//
// Notation. Labels 0 .. n - 1; the tree over them hangs on label 0, whose only child is the largest power of two below
// n, and each label x > 0 with lowest bit b is the child of (x - b) | 2b, or of x - b where that is not below n: the
// tree of all labels but 0 in order, so that odd labels are leaves. The second tree is the first under another
// numbering, by which whoever is inside in one is a leaf of the other (one node aside where their number is odd). With
// half of the data on each, every node then sends and receives each byte but once, as in a ring, at a depth of log2 n
// (P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel
// Computing 35, 2009; all-reduce as in NCCL 2.4 and later, src/graph/trees.cc).
//
// Members of one node form a chain, one for each of them (NCCL's channels, as for rings: ring_edges), each with its
// part of the data and headed by its member, which alone is in the tree. In the node of a broadcast's root, all chains
// begin at the root and channel c leaves the node at member c, so that every NIC is used.
//
// Data streams in chunks: all edges are at work at once, and what the depth costs is latency alone.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/machine/cluster.hpp"

namespace moeplan {

/// Two complementary trees over nodes.
class DoubleTree {
 public:
  /// `rooted`: node 0 is the root of both (a broadcast); else the root of a tree is just a node of it (a reduction and
  /// a broadcast back).
  DoubleTree(std::int64_t nodes, bool rooted) : nodes_(nodes), rooted_(rooted) {}

  /// Of tree `which`, 0 or 1; none for its root.
  [[nodiscard]] std::optional<std::int64_t> parent(int which, std::int64_t node) const;
  [[nodiscard]] std::vector<std::int64_t> children(int which, std::int64_t node) const;

 private:
  [[nodiscard]] std::int64_t label(int which, std::int64_t node) const;
  [[nodiscard]] std::int64_t node(int which, std::int64_t label) const;

  std::int64_t nodes_;
  bool rooted_;
};

/// What a position of a group exchanges with another: inside the node in all, between nodes in one tree.
struct TreeEdge {
  std::int64_t peer;
  std::int64_t sends = 0;     // bytes
  std::int64_t receives = 0;  // bytes
  bool operator==(const TreeEdge&) const = default;
};

/// The edges at `position` of a group of `size` with `per_node` members a node, by peer and tree, for an all-reduce of
/// `bytes` or their broadcast from position 0. O(per_node + log size).
[[nodiscard]] std::vector<TreeEdge> tree_edges(Collective collective, std::int64_t position, std::int64_t size,
                                               std::int64_t per_node, std::int64_t bytes);

/// The positions on the longest way from the root to a last member, both included: what the first byte passes, and
/// before it, in an all-reduce, the last addend on its way up. O(size log size).
[[nodiscard]] std::vector<std::int64_t> longest_tree_way(Collective collective, std::int64_t size,
                                                         std::int64_t per_node);

}  // namespace moeplan
