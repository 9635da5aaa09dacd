// What all-to-alls are written with.
#pragma once

#include <string>
#include <vector>

#include "planner/layer/all_to_all.hpp"

namespace moeplan::planner {

/// One all-to-all of the Program, after what was appended last.
void move_rows(const Exchange& exchange, Stream stream, Communication communication, BlockBuilder& block);

/// A slice of other rows in a buffer like that of `like`, named after it.
[[nodiscard]] Slice hop(const Slice& like, const std::string& suffix, Rows rows, BlockBuilder& block);

/// Rows held by a group's members for the sources of a path.
[[nodiscard]] Rows held_rows(const Rows& like, GroupId holders, std::vector<RowStep> path);

/// The path of one of the copies that come back from several expert shards.
[[nodiscard]] std::vector<RowStep> source_path(const Exchange& exchange);

/// The exchange group of a family on the machine of a program, `shards` consecutive members to an expert.
[[nodiscard]] ExchangeGroup exchange_group(const Program& program, GroupId group, std::int64_t shards);

/// Members of the group that share a node, and those at the same place of their nodes.
struct NodeLevels {
  GroupId inside;
  GroupId across;
};
[[nodiscard]] NodeLevels node_levels(GroupId group, BlockBuilder& block);

/// A way through several groups, in the direction from the sources to the holders: slices[0] is at the sources, and
/// groups[i] exchanges slices[i] for slices[i + 1].
struct Hops {
  std::vector<Slice> slices;
  std::vector<GroupId> groups;
};

}  // namespace moeplan::planner
