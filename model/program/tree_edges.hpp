// The double binary tree: the edges of a tree collective.
//
// Notation. Labels 0 .. n - 1. The root of the tree is label 0, whose only child is the largest power of two below n;
// each label x > 0 with lowest set bit b is the child of (x - b) | 2b, or of x - b if that is not below n. The labels
// except 0 thus form an in-order binary tree, in which odd labels are leaves. The second tree is the first under
// another numbering, such that every inner node of one is a leaf of the other (except for one node if their number is
// odd). With half of the data on each tree, every node sends and receives each byte only once, as in a ring, at a depth
// of log2 n (P. Sanders, J. Speck, J. L. Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", Parallel Computing 35, 2009; all-reduce as in NCCL 2.4 and later, src/graph/trees.cc).
//
// The members of a node form chains, one per member (NCCL's channels, as for rings: ring_edges), each with its part of
// the data. Each chain starts at its own member, the only one that is part of the tree. In the node of a broadcast's
// root, all chains begin at the root and channel c leaves the node at member c, so that every NIC is used.
//
// Data are streamed in chunks: all edges are active at the same time, and the depth costs only latency.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/machine/cluster.hpp"

namespace moeplan {

/// Two complementary trees over nodes.
class DoubleTree {
 public:
  /// `rooted`: node 0 is the root of both trees (a broadcast); otherwise the root of a tree is one of its nodes (a
  /// reduction followed by a broadcast).
  DoubleTree(std::int64_t nodes, bool rooted) : nodes_(nodes), rooted_(rooted) {}

  /// Parent in tree `which` (0 or 1); none for its root.
  [[nodiscard]] std::optional<std::int64_t> parent(int which, std::int64_t node) const;
  [[nodiscard]] std::vector<std::int64_t> children(int which, std::int64_t node) const;

 private:
  [[nodiscard]] std::int64_t label(int which, std::int64_t node) const;
  [[nodiscard]] std::int64_t node(int which, std::int64_t label) const;

  std::int64_t nodes_;
  bool rooted_;
};

/// The data that a position of a group exchanges with a peer: within the node over all trees, between nodes in one
/// tree.
struct TreeEdge {
  std::int64_t peer;
  std::int64_t sends = 0;     // bytes
  std::int64_t receives = 0;  // bytes
  bool operator==(const TreeEdge&) const = default;
};

/// The edges at `position` of a group of `size` with `per_node` members per node, by peer and tree, for an all-reduce
/// of `bytes` bytes or a broadcast of them from position 0. O(per_node + log size).
[[nodiscard]] std::vector<TreeEdge> tree_edges(Collective collective, std::int64_t position, std::int64_t size,
                                               std::int64_t per_node, std::int64_t bytes);

/// The positions on the longest path from the root to a last member, both included: the path of the first byte and,
/// before it, in an all-reduce, of the last addend towards the root (reversed). O(size log size).
[[nodiscard]] std::vector<std::int64_t> longest_tree_path(Collective collective, std::int64_t size,
                                                          std::int64_t per_node);

}  // namespace moeplan
