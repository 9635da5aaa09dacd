// Rings over ranks, which pass through whole nodes.
#pragma once

#include <compare>
#include <cstdint>

namespace moeplan {

/// A family of rings over ranks: groups of `size` ranks, `stride` apart, with `per_node` consecutive members per node.
struct RingFamily {
  std::int64_t size;
  std::int64_t stride;
  std::int64_t per_node;
  auto operator<=>(const RingFamily&) const = default;
};

/// The positions that follow `position` in the rings of a group. There is one ring per member of a node (`per_node`):
/// ring c enters each node at its c-th member and leaves it at the member before. From a given position, `along` inside
/// the node carries all rings but one, and `across` to the next node carries that one. A group within one node, or with
/// one member per node, has only the plain ring, as `along`.
struct RingEdges {
  std::int64_t along;
  std::int64_t across;  // equals the own position if there is none
};
[[nodiscard]] inline RingEdges ring_edges(std::int64_t position, std::int64_t size, std::int64_t per_node) {
  const std::int64_t nodes = size / per_node;
  if (nodes == 1 || per_node == 1) return {(position + 1) % size, position};
  const std::int64_t node = position / per_node, next = (position % per_node + 1) % per_node;
  return {node * per_node + next, (node + 1) % nodes * per_node + next};
}

}  // namespace moeplan
