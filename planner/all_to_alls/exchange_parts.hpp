// Building blocks shared by the all-to-all algorithms.
#pragma once

#include <string>
#include <vector>

#include "planner/layer/all_to_all.hpp"

namespace moeplan::planner {

/// Appends one all-to-all operation of the Program after the operation appended last.
void move_rows(const Exchange& exchange, Stream stream, Communication communication, BlockBuilder& block);

/// A slice of different rows in a new buffer with the width and format of that of `like`, and its name plus `suffix`.
[[nodiscard]] Slice hop(const Slice& like, const std::string& suffix, Rows rows, BlockBuilder& block);

/// The rows that a group's members hold for the sources of a path.
[[nodiscard]] Rows held_rows(const Rows& like, GroupId holders, std::vector<RowStep> path);

/// The path from a rank to the sources of the exchange, without the step for the copies that several expert shards
/// return.
[[nodiscard]] std::vector<RowStep> source_path(const Exchange& exchange);

/// The exchange group of a family on the program's cluster; `shards` consecutive members share an expert.
[[nodiscard]] ExchangeGroup exchange_group(const Program& program, GroupId group, std::int64_t shards);

/// The two levels of a group: members that share a node, and members at the same position of their nodes.
struct NodeLevels {
  GroupId inside;
  GroupId across;
};
[[nodiscard]] NodeLevels node_levels(GroupId group, BlockBuilder& block);

/// A route through several groups, from the sources to the holders: slices[0] is at the sources, and groups[i]
/// exchanges slices[i] for slices[i + 1].
struct Hops {
  std::vector<Slice> slices;
  std::vector<GroupId> groups;
};

}  // namespace moeplan::planner
