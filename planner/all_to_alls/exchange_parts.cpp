#include "planner/all_to_alls/exchange_parts.hpp"

namespace moeplan::planner {

void move_rows(const Exchange& exchange, Stream stream, Communication communication, BlockBuilder& block) {
  communication.collective = Collective::AllToAll;
  communication.group = exchange.group;
  block.then({.name = exchange.name,
              .op_class = exchange.op_class,
              .stream = stream,
              .work = communication,
              .reads = {exchange.from},
              .writes = {exchange.to},
              .after = {}});
}

Slice hop(const Slice& like, const std::string& suffix, Rows rows, BlockBuilder& block) {
  const Buffer buffer = block.program().buffer(like.buffer);
  return block.slice(buffer.name + suffix, buffer.columns, buffer.dtype, std::move(rows));
}

Rows held_rows(const Rows& like, GroupId holders, std::vector<RowStep> path) {
  Rows rows = Rows::routed(like.routing, Rows::Experts::Held, std::move(path));
  rows.holders = holders;
  return rows;
}

std::vector<RowStep> source_path(const Exchange& exchange) {
  std::vector<RowStep> path = (exchange.is_combine ? exchange.to : exchange.from).rows.path;
  if (!path.empty() && path.front().kind == RowStep::Kind::Copies) path.erase(path.begin());
  return path;
}

ExchangeGroup exchange_group(const Program& program, GroupId group, std::int64_t shards) {
  const GroupFamily& family = program.group(group);
  return {family, members_per_node(program, family), shards};
}

NodeLevels node_levels(GroupId group, BlockBuilder& block) {
  const GroupFamily family = block.program().group(group);
  const std::int64_t inside = members_per_node(block.program(), family);
  return {block.group(family.name + " in a node", inside, family.stride),
          block.group(family.name + " across nodes", family.size / inside, family.stride * inside)};
}

}  // namespace moeplan::planner
