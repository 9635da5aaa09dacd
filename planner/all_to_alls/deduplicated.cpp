// Node-deduplicated all-to-all (DeepEP's normal mode; MODELS section 2). Dispatch: a token is sent once to each node
// that holds any of its experts, to the rank at the sender's own position; that rank forwards it once to each rank of
// the node that holds any. Combine: the node sums its ranks' rows in transit, and the source sums one row from each
// node. The holders expand tokens into their experts' rows and sum the results (expert_round.hpp).
#include "planner/all_to_alls/exchange_parts.hpp"

namespace moeplan::planner {

namespace {

class Deduplicated : public AllToAll {
 public:
  std::string_view name() const override { return "node_dedup"; }
  std::string_view summary() const override {
    return "a token goes once to a node, and once to a rank there, however many of its experts they hold [DeepEP]";
  }
  std::optional<Infeasibility> infeasibility(const ExchangeGroup& group) const override {
    if (group.nodes() == 1) return Infeasibility(Constraint::Limit, 1, 2, "node_dedup needs several nodes");
    if (group.shards == 1) return std::nullopt;
    return Infeasibility(Constraint::Limit, 1, group.shards, "node_dedup sends no partial sums of expert shards");
  }
  bool deduplicates() const override { return true; }

  void lower(const Exchange& exchange, BlockBuilder& block) const override {
    const NodeLevels levels = node_levels(exchange.group, block);
    const Slice& sources = exchange.is_combine ? exchange.to : exchange.from;
    std::vector<RowStep> path = source_path(exchange);
    path.insert(path.begin(), {RowStep::Kind::Union, levels.across});
    Rows in_node = held_rows(sources.rows, levels.inside, path);
    in_node.distinct = true;
    const Slice node = hop(sources, ".node", in_node, block);
    if (exchange.is_combine) {
      step(exchange, levels.inside, Stream::Intra, exchange.from, node, block);
      step(exchange, levels.across, Stream::Inter, node, exchange.to, block);
    } else {
      step(exchange, levels.across, Stream::Inter, exchange.from, node, block);
      step(exchange, levels.inside, Stream::Intra, node, exchange.to, block);
    }
  }

 private:
  static void step(Exchange exchange, GroupId group, Stream stream, const Slice& from, const Slice& to,
                   BlockBuilder& block) {
    exchange.group = group;
    exchange.from = from;
    exchange.to = to;
    move_rows(exchange, stream, {}, block);
  }
};

}  // namespace

std::unique_ptr<AllToAll> make_deduplicated_all_to_all() { return std::make_unique<Deduplicated>(); }

}  // namespace moeplan::planner
