// The one-dimensional hierarchical all-to-all (1DH, [HetuMoE] sec. 3.2; MODELS section 2): rows are gathered on the
// first rank of each node; these leaders exchange the rows and scatter what they receive. A leader holds all rows of
// its node.
#include "planner/all_to_alls/exchange_parts.hpp"

namespace moeplan::planner {

namespace {

class Leaders : public AllToAll {
 public:
  std::string_view name() const override { return "1dh"; }
  std::string_view summary() const override {
    return "one-dimensional hierarchical: gathered on a node's first rank, exchanged, scattered [HetuMoE]";
  }
  std::optional<Infeasibility> infeasibility(const ExchangeGroup& group) const override {
    if (group.per_node == 1 || group.nodes() == 1)
      return Infeasibility(Constraint::Limit, 1, 2, "1dh needs several nodes with several ranks each");
    if (group.shards == 1) return std::nullopt;
    return Infeasibility(Constraint::Limit, 1, group.shards, "1dh gathers no partial sums of expert shards");
  }
  void lower(const Exchange& exchange, BlockBuilder& block) const override {
    const NodeLevels levels = node_levels(exchange.group, block);
    const RowStep leader{RowStep::Kind::Leader, levels.inside};
    const RowStep node{RowStep::Kind::Union, levels.inside}, nodes{RowStep::Kind::Union, levels.across};
    std::vector<RowStep> path = source_path(exchange);
    path.insert(path.begin(), {leader, node});
    const Rows& like = exchange.from.rows;
    const Slice gathered = hop(exchange.from, ".node", Rows::routed(like.routing, Rows::Experts::All, path), block);
    path.insert(path.begin() + 1, nodes);
    const Slice exchanged = hop(exchange.from, ".nodes", held_rows(like, levels.inside, path), block);
    const Slice& first = exchange.is_combine ? exchanged : gathered;
    const Slice& second = exchange.is_combine ? gathered : exchanged;
    step(exchange, levels.inside, Stream::Intra, exchange.from, first, block);
    step(exchange, levels.across, Stream::Inter, first, second, block);
    step(exchange, levels.inside, Stream::Intra, second, exchange.to, block);
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

std::unique_ptr<AllToAll> make_leaders_all_to_all() { return std::make_unique<Leaders>(); }

}  // namespace moeplan::planner
