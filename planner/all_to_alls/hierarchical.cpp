// All-to-alls with several levels: first within nodes, then between ranks at the same position of their nodes, so that
// few large messages cross the network (2DH, [Tutel] sec. 4.3, algorithm 2; MODELS section 2). Combine runs the levels
// in reverse order.
//
//   2dh          before each level a copy makes the rows for one peer contiguous: 2 x 2 S bytes through the HBM, and
//                m - 1 + N - 1 messages
//   naive_local  without the copies: the rows for a peer stay in pieces, each of which is a message ([Tutel] fig. 14,
//                "naive local aggregation")
//   3dh          nodes are divided once more, into groups of about sqrt N ([Tutel] sec. 4.3 on dragonfly networks)
#include <cmath>

#include "planner/all_to_alls/exchange_parts.hpp"

namespace moeplan::planner {

namespace {

/// Member counts of the levels, innermost first; their product is the group size.
using Levels = std::vector<std::int64_t>;

class Hierarchical : public AllToAll {
 public:
  Hierarchical(std::string_view name, std::string_view summary, bool copies, bool splits_nodes)
      : name_(name), summary_(summary), copies_(copies), splits_nodes_(splits_nodes) {}

  std::string_view name() const override { return name_; }
  std::string_view summary() const override { return summary_; }
  std::optional<Infeasibility> infeasibility(const ExchangeGroup& group) const override {
    if (group.per_node == 1 || group.nodes() == 1)
      return Infeasibility(Constraint::Limit, 1, 2, "hierarchical all-to-alls need several nodes of several ranks");
    if (group.per_node % group.shards != 0)
      return Infeasibility(Constraint::Multiple, group.per_node, group.shards,
                           "hierarchical all-to-alls need an expert's shards in one node");
    if (splits_nodes_ && node_group(group.nodes()) == 1) return "3dh needs a number of nodes that divides";
    return std::nullopt;
  }

  void lower(const Exchange& exchange, BlockBuilder& block) const override {
    Hops hops = hops_of(exchange, block);
    if (exchange.is_combine) {
      std::reverse(hops.slices.begin(), hops.slices.end());
      std::reverse(hops.groups.begin(), hops.groups.end());
    }
    const std::int64_t all = block.program().group(exchange.group).size;
    const std::int64_t stride = block.program().group(exchange.group).stride;
    for (std::size_t i = 0; i < hops.groups.size(); ++i) {
      const std::int64_t members = block.program().group(hops.groups[i]).size;
      Exchange level = exchange;
      level.group = hops.groups[i];
      level.from = copies_ ? aligned(exchange, hops.slices[i], block) : hops.slices[i];
      level.to = hops.slices[i + 1];
      const bool is_inside = block.program().group(hops.groups[i]).stride == stride;
      move_rows(level, is_inside ? Stream::Intra : Stream::Inter, {.messages = copies_ ? 1 : all / members}, block);
    }
  }

 private:
  /// The largest divisor of the number of nodes that does not exceed its square root.
  static std::int64_t node_group(std::int64_t nodes) {
    auto size = static_cast<std::int64_t>(std::sqrt(static_cast<double>(nodes)));
    while (nodes % size != 0) --size;
    return size;
  }

  Levels levels(const ExchangeGroup& group) const {
    if (!splits_nodes_) return {group.per_node, group.nodes()};
    const std::int64_t near = node_group(group.nodes());
    return {group.per_node, near, group.nodes() / near};
  }

  Hops hops_of(const Exchange& exchange, BlockBuilder& block) const {
    const GroupFamily family = block.program().group(exchange.group);
    const Slice& sources = exchange.is_combine ? exchange.to : exchange.from;
    const Slice& holders = exchange.is_combine ? exchange.from : exchange.to;
    Hops hops{.slices = {sources}, .groups = {}};
    std::vector<RowStep> path = source_path(exchange);
    std::int64_t done = 1;
    for (const std::int64_t size : levels(exchange_group(block.program(), exchange.group, 1))) {
      const std::string label = done == 1                    ? " in a node"
                                : size * done == family.size ? " across nodes"
                                                             : " across near nodes";
      hops.groups.push_back(block.group(family.name + label, size, family.stride * done));
      path.insert(path.begin(), {RowStep::Kind::Union, hops.groups.back()});
      done *= size;
      if (done == family.size) break;
      const GroupId rest = block.group(family.name + " beyond", family.size / done, family.stride * done);
      hops.slices.push_back(
          hop(exchange.from, "." + std::to_string(hops.groups.size()), held_rows(sources.rows, rest, path), block));
    }
    hops.slices.push_back(holders);
    return hops;
  }

  /// A copy of the rows with those for one peer contiguous.
  static Slice aligned(const Exchange& exchange, const Slice& rows, BlockBuilder& block) {
    const Slice copy = hop(rows, ".aligned", rows.rows, block);
    block.then({.name = exchange.name + " stride copy",
                .op_class = exchange.op_class,
                .stream = Stream::Copy,
                .work = Kernel::Copy,
                .reads = {rows},
                .writes = {copy},
                .after = {}});
    return copy;
  }

  std::string_view name_;
  std::string_view summary_;
  bool copies_;
  bool splits_nodes_;
};

}  // namespace

std::unique_ptr<AllToAll> make_two_dimensional_all_to_all() {
  return std::make_unique<Hierarchical>(
      "2dh", "two-dimensional hierarchical: inside nodes, then between equal places of nodes [Tutel sec. 4.3]", true,
      false);
}
std::unique_ptr<AllToAll> make_naive_local_all_to_all() {
  return std::make_unique<Hierarchical>(
      "naive_local", "the two levels of 2dh without its copies: every piece a message of its own [Tutel fig. 14]",
      false, false);
}
std::unique_ptr<AllToAll> make_three_dimensional_all_to_all() {
  return std::make_unique<Hierarchical>(
      "3dh", "three levels: inside nodes, between near nodes, between groups of nodes [Tutel sec. 4.3]", true, true);
}

}  // namespace moeplan::planner
