#include <algorithm>
#include <cassert>
#include <map>
#include <optional>
#include <tuple>

#include "model/base/whole_numbers.hpp"
#include "model/program/resolve.hpp"
#include "model/program/row_sets.hpp"
#include "model/program/tree_edges.hpp"

namespace moeplan {

namespace {

/// The path without the copies of the receiver's rows that several senders make.
std::span<const RowStep> one_copy(std::span<const RowStep> path) {
  return !path.empty() && path.front().kind == RowStep::Kind::Copies ? path.subspan(1) : path;
}

/// The rows that ranks send to each other in an all-to-all. Where all experts have equal loads, pairs with equal
/// numbers of experts have equal rows: these are counted once.
class PairRows {
 public:
  PairRows(const Program& program, const Operation& operation)
      : program_(program),
        family_(program.group(operation.communication()->group)),
        in_(operation.reads.front().rows),
        out_(operation.writes.front().rows),
        gets_(one_copy(out_.path)),
        gathers_(sources_reached(program, in_.path) <= sources_reached(program, gets_)) {
    assert((in_.kind == Rows::Kind::Fixed || in_.kind == Rows::Kind::Routed) && "weights do not go through it");
    if (in_.kind == Rows::Kind::Fixed) return;
    const RoutingTable& table = program.routings[counted().routing.index()];
    is_uniform_ = table.counts.is_uniform() && table.slots.empty();
    is_positional_ = is_positional(counted_path());
  }

  [[nodiscard]] std::int64_t between(RankId from, RankId to) {
    if (in_.kind == Rows::Kind::Fixed) return part(in_.each, family_.position(to), family_.size);
    if (!leads(program_, in_.path, from) || !leads(program_, gets_, to)) return 0;
    const bool all_in = in_.experts == Rows::Experts::All;
    if (!is_uniform_ || is_positional_ || counted().distinct || !(all_in || out_.experts == Rows::Experts::All))
      return counted_between(from, to);
    if (of_positions_.empty()) of_positions_.assign(static_cast<std::size_t>(family_.size), -1);
    std::int64_t& known = of_positions_[static_cast<std::size_t>(family_.position(all_in ? to : from))];
    if (known < 0) known = counted_between(from, to);
    return known;
  }

 private:
  [[nodiscard]] const Rows& counted() const { return gathers_ ? in_ : out_; }
  [[nodiscard]] std::span<const RowStep> counted_path() const { return gathers_ ? in_.path : gets_; }

  [[nodiscard]] std::int64_t counted_between(RankId from, RankId to) {
    find_experts(from, to);
    const RankId rank = gathers_ ? from : to;
    if (!is_uniform_ || (counted().distinct && experts_.size() != 1))
      return rows_over(program_, counted(), counted_path(), rank, experts_);
    const std::pair key(is_positional_ ? rank : RankId(0), size_of(experts_));
    const auto [it, is_new] = known_rows_.try_emplace(key, 0);
    if (is_new) it->second = rows_over(program_, counted(), counted_path(), rank, experts_);
    return it->second;
  }

  void find_experts(RankId from, RankId to) {
    const bool all_in = in_.experts == Rows::Experts::All;
    if (!all_in && out_.experts != Rows::Experts::All) {
      experts_ = intersection(known_experts(in_, from, of_senders_), known_experts(out_, to, of_receivers_));
      return;
    }
    const Rows& rows = all_in ? out_ : in_;
    const RankId rank = all_in ? to : from;
    if (rows.experts == Rows::Experts::Local) {
      experts_.assign(1, local_experts(program_, rows.routing, rank));
    } else {
      experts_ = known_experts(rows, rank, all_in ? of_receivers_ : of_senders_);
    }
  }

  /// experts_of(), once for each rank of a group.
  const ExpertSet& known_experts(const Rows& rows, RankId rank, std::map<RankId, ExpertSet>& known) const {
    const auto [it, is_new] = known.try_emplace(rank);
    if (is_new) it->second = experts_of(program_, rows, rank);
    return it->second;
  }

  const Program& program_;
  const GroupFamily& family_;
  const Rows& in_;
  const Rows& out_;
  std::span<const RowStep> gets_;  // the receiver's path
  bool gathers_;                   // the sender's rows are counted
  bool is_uniform_ = false;        // all sources select all experts equally often
  bool is_positional_ = false;     // rows depend on the rank that they are counted for
  std::map<RankId, ExpertSet> of_senders_, of_receivers_;
  ExpertSet experts_;                                                   // of the last pair
  std::map<std::pair<RankId, std::int64_t>, std::int64_t> known_rows_;  // by rank, if it matters, and experts
  std::vector<std::int64_t> of_positions_;  // by that of the rank whose experts decide, if only these matter
};

/// Number of rows that position `from` sends to position `to`, its own and those that it relays, with
/// Communication::relays in the group of rank `base`.
std::int64_t relayed_rows(const Program& program, const Operation& operation, std::int64_t from, std::int64_t to,
                          RankId base) {
  const Communication& c = *operation.communication();
  const GroupFamily &family = program.group(c.group), &node = program.group(*c.relays);
  if (from == to) return 0;
  const bool combines = adds_up(program, operation);
  const Rows& at_sources = (combines ? operation.writes : operation.reads).front().rows;
  Rows at_holders = (combines ? operation.reads : operation.writes).front().rows;
  const std::int64_t source = combines ? to : from, holder = combines ? from : to;
  const auto rows = [&](std::int64_t of, const ExpertSet& experts) {
    return rows_over(program, at_sources, at_sources.path, family.member(base, of), experts);
  };
  if (source / node.size == holder / node.size) {  // the rows of all sources at this position of their nodes
    const ExpertSet experts = experts_of(program, at_holders, family.member(base, holder));
    std::int64_t sum = 0;
    for (std::int64_t s = source % node.size; s < family.size; s += node.size) sum += rows(s, experts);
    return sum;
  }
  if (source % node.size != holder % node.size) return 0;
  at_holders.experts = Rows::Experts::Held;  // by the whole node
  at_holders.holders = *c.relays;
  return rows(source, experts_of(program, at_holders, family.member(base, holder)));
}

/// An edge of the chains of placed experts, as positions in the group, in the direction of a broadcast.
struct ChainEdge {
  std::int64_t from;
  std::int64_t to;
  std::int64_t experts;  // number of experts on this hop
};

/// The hops of all chains of the group of `member`, by (from, to).
std::vector<ChainEdge> chain_edges(const Program& program, const Operation& operation, RankId member) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> edges;
  for (const ExpertChain& chain : expert_chains(program, operation, member)) {
    for (std::size_t i = 1; i < chain.positions.size(); ++i) ++edges[{chain.positions[i - 1], chain.positions[i]}];
  }
  std::vector<ChainEdge> out;
  for (const auto& [ends, experts] : edges) out.push_back({ends.first, ends.second, experts});
  return out;
}

bool is_pairwise(const Communication& c) {
  return c.collective == Collective::AllToAll || c.collective == Collective::SendReceive;
}

/// The positions, in order, that a position sends to (direction 1) or receives from (-1) in this part of an exchange:
/// whole blocks, cyclically.
template <class Visit>
void for_peers(const Communication& c, const GroupFamily& family, std::int64_t position, std::int64_t direction,
               Visit&& visit) {
  const std::int64_t block = family.size / c.of, blocks = std::min(c.count, c.of);
  if (c.paired) {
    std::vector<std::int64_t> partners;
    for (std::int64_t j = c.first; j < c.first + blocks; ++j) partners.push_back((position / block) ^ j);
    std::sort(partners.begin(), partners.end());
    for (const std::int64_t partner : partners) {
      for (std::int64_t p = partner * block; p < (partner + 1) * block; ++p) visit(p);
    }
    return;
  }
  const std::int64_t nearest = position / block + direction * (direction > 0 ? c.first : c.first + blocks - 1);
  const std::int64_t begin = ((nearest % c.of) + c.of) % c.of * block, end = begin + blocks * block;
  for (std::int64_t p = 0; p < end - family.size; ++p) visit(p);
  for (std::int64_t p = begin; p < std::min(end, family.size); ++p) visit(p);
}

/// Bytes between the positions of one group in one communication.
class FlowBytes {
 public:
  FlowBytes(const Program& program, const Operation& operation, RankId member)
      : program_(program),
        operation_(operation),
        c_(*operation.communication()),
        family_(program.group(c_.group)),
        base_(family_.base(member)),
        per_node_(members_per_node(program, family_)) {
    if (is_pairwise(c_)) pair_rows_.emplace(program, operation);
    const Slice& input = operation.reads.front();
    const Buffer& buffer = program.buffer(input.buffer);
    row_bytes_ = buffer.columns * size_of(buffer.dtype);
    if (family_.size == 1 || is_pairwise(c_)) return;
    if (is_to_copies(operation)) {
      chain_edges_ = chain_edges(program, operation, member);
      if (c_.reduces) {
        for (ChainEdge& e : chain_edges_) std::swap(e.from, e.to);
      }
      return;
    }
    if (c_.collective == Collective::Broadcast) {
      total_ = row_count(program, input.rows, base_) * row_bytes_;
      return;
    }
    if (equal_on_all_ranks(program, input.rows)) {
      rows_ = row_count(program, input.rows, base_);
      total_ = row_bytes_ * rows_ * (c_.collective == Collective::AllGather ? family_.size : 1);
      return;
    }
    block_.reserve(static_cast<std::size_t>(family_.size));
    for (std::int64_t p = 0; p < family_.size; ++p) {
      block_.push_back(block_of(p, row_count(program, input.rows, rank(p))));
      total_ += block_.back();
    }
  }

  void add_sent_by(std::int64_t from, std::vector<Flow>& flows) const {
    if (is_to_copies(operation_)) return add_chains(flows, [&](const ChainEdge& e) { return e.from == from; });
    if (is_tree()) {
      for (const TreeEdge& e : edges_of_tree(from)) {
        if (e.sends > 0) flows.push_back({rank(from), rank(e.peer), e.sends});
      }
      return;
    }
    if (is_chain()) return add(from, (from + 1) % family_.size, flows);
    if (!is_pairwise(c_)) {
      const RingEdges edges = ring_edges(from, family_.size, per_node_);
      add_along(from, edges.along, flows);
      add_across(from, edges.across, flows);
      return;
    }
    if (c_.relays) {
      for (std::int64_t to = 0; to < family_.size; ++to) add_relayed(from, to, flows);
      return;
    }
    for_peers(c_, family_, from, 1, [&](std::int64_t to) { add(from, to, flows); });
  }

  void add_received_by(std::int64_t to, std::vector<Flow>& flows) const {
    if (is_to_copies(operation_)) return add_chains(flows, [&](const ChainEdge& e) { return e.to == to; });
    if (is_tree()) {
      for (const TreeEdge& e : edges_of_tree(to)) {
        if (e.receives > 0) flows.push_back({rank(e.peer), rank(to), e.receives});
      }
      return;
    }
    if (is_chain()) return add((to - 1 + family_.size) % family_.size, to, flows);
    if (!is_pairwise(c_)) {
      for (std::int64_t from = 0; from < family_.size; ++from) {
        const RingEdges edges = ring_edges(from, family_.size, per_node_);
        if (edges.along == to) add_along(from, to, flows);
        if (edges.across == to) add_across(from, to, flows);
      }
      return;
    }
    if (c_.relays) {
      for (std::int64_t from = 0; from < family_.size; ++from) add_relayed(from, to, flows);
      return;
    }
    for_peers(c_, family_, to, -1, [&](std::int64_t from) { add(from, to, flows); });
  }

 private:
  template <class Choose>
  void add_chains(std::vector<Flow>& flows, const Choose& choose) const {
    const std::size_t first = flows.size();
    for (const ChainEdge& e : chain_edges_) {
      const std::int64_t bytes = e.experts * operation_.reads.front().rows.each * row_bytes_;
      if (choose(e) && bytes > 0) flows.push_back({rank(e.from), rank(e.to), bytes});
    }
    std::sort(flows.begin() + static_cast<std::ptrdiff_t>(first), flows.end(),
              [](const Flow& a, const Flow& b) { return std::tie(a.from, a.to) < std::tie(b.from, b.to); });
  }

  [[nodiscard]] RankId rank(std::int64_t position) const { return family_.member(base_, position); }

  [[nodiscard]] bool is_tree() const { return !is_pairwise(c_) && c_.pattern == Pattern::Tree; }
  [[nodiscard]] std::vector<TreeEdge> edges_of_tree(std::int64_t position) const {
    return tree_edges(c_.collective, position, family_.size, per_node_, total_);
  }
  [[nodiscard]] bool is_chain() const { return c_.collective == Collective::Broadcast; }
  [[nodiscard]] bool has_across() const { return per_node_ > 1 && per_node_ < family_.size; }

  /// Rounded up: how a collective divides some bytes among its rings is its own affair.
  [[nodiscard]] std::int64_t of_one_ring(std::int64_t bytes) const { return ceil_div(bytes, per_node_); }

  /// Inside the node: all rings except the one that leaves the node here.
  void add_along(std::int64_t from, std::int64_t to, std::vector<Flow>& flows) const {
    if (from == to) return;
    const std::int64_t all = ring_bytes(from, to);
    const std::int64_t bytes = has_across() ? all - of_one_ring(all) : all;
    if (bytes > 0) flows.push_back({rank(from), rank(to), bytes});
  }
  void add_across(std::int64_t from, std::int64_t to, std::vector<Flow>& flows) const {
    if (!has_across()) return;
    const std::int64_t bytes = of_one_ring(ring_bytes(from, to));
    if (bytes > 0) flows.push_back({rank(from), rank(to), bytes});
  }

  void add(std::int64_t from, std::int64_t to, std::vector<Flow>& flows) const {
    if (from == to) return;
    const std::int64_t bytes = is_pairwise(c_) ? pair_bytes(from, to) : ring_bytes(from, to);
    if (bytes > 0) flows.push_back({rank(from), rank(to), bytes});
  }

  /// Members of two nodes at the same position of these, or two members of one node.
  void add_relayed(std::int64_t from, std::int64_t to, std::vector<Flow>& flows) const {
    const std::int64_t bytes = row_bytes_ * relayed_rows(program_, operation_, from, to, rank(0));
    if (bytes > 0) flows.push_back({rank(from), rank(to), bytes});
  }

  [[nodiscard]] std::int64_t pair_bytes(std::int64_t from, std::int64_t to) const {
    return row_bytes_ * pair_rows_->between(rank(from), rank(to));
  }

  /// To the next position. A ring forwards all blocks but one: the receiver's own in a gather, the sender's own in a
  /// reduction.
  [[nodiscard]] std::int64_t ring_bytes(std::int64_t from, std::int64_t to) const {
    if (c_.collective == Collective::Broadcast) return to == 0 ? 0 : total_;
    const std::int64_t own = block(from), theirs = block(to);
    switch (c_.collective) {
      case Collective::AllGather: return total_ - theirs;
      case Collective::ReduceScatter: return total_ - own;
      case Collective::AllReduce: return 2 * total_ - own - theirs;
      case Collective::AllToAll:
      case Collective::Broadcast:
      case Collective::SendReceive: break;
    }
    return 0;
  }

  /// Of a ring: the bytes that the position owns, of so many rows of a rank.
  [[nodiscard]] std::int64_t block_of(std::int64_t position, std::int64_t rows) const {
    return row_bytes_ * (c_.collective == Collective::AllGather ? rows : part(rows, position, family_.size));
  }
  [[nodiscard]] std::int64_t block(std::int64_t position) const {
    return block_.empty() ? block_of(position, rows_) : block_[static_cast<std::size_t>(position)];
  }

  const Program& program_;
  const Operation& operation_;
  const Communication& c_;
  const GroupFamily& family_;
  RankId base_;
  std::int64_t row_bytes_ = 0;
  std::int64_t per_node_;
  std::int64_t total_ = 0;           // of a ring, a chain or a tree
  std::int64_t rows_ = 0;            // of a ring: of each rank, if they are equal
  std::vector<std::int64_t> block_;  // otherwise: by position
  std::vector<ChainEdge> chain_edges_;
  mutable std::optional<PairRows> pair_rows_;  // of an all-to-all or an exchange
};

}  // namespace

bool is_to_copies(const Operation& operation) {
  const Communication* c = operation.communication();
  return c != nullptr && c->collective == Collective::Broadcast &&
         operation.reads.front().rows.kind == Rows::Kind::PerExpert;
}

bool adds_up(const Program& program, const Operation& operation) {
  const Communication& c = *operation.communication();
  const Rows &in = operation.reads.front().rows, &out = operation.writes.front().rows;
  switch (c.collective) {
    case Collective::AllReduce:
    case Collective::ReduceScatter: return true;
    case Collective::AllToAll:
      return in.distinct && out.distinct && sources_reached(program, in.path) > sources_reached(program, out.path);
    default: return c.reduces;
  }
}

bool exchanges(const Communication& c, const GroupFamily& family, std::int64_t from, std::int64_t to) {
  if (c.of == 1) return true;
  assert(family.size % c.of == 0 && "an exchange in parts has equal blocks");
  const std::int64_t block = family.size / c.of;
  const std::int64_t offset = c.paired ? (to / block) ^ (from / block) : (to / block - from / block + c.of) % c.of;
  return offset >= c.first && offset < c.first + c.count;
}

std::vector<Flow> group_flows(const Program& program, const Operation& operation, RankId member) {
  const GroupFamily& family = program.group(operation.communication()->group);
  const FlowBytes flow_bytes(program, operation, member);
  std::vector<Flow> flows;
  for (std::int64_t p = 0; p < family.size; ++p) flow_bytes.add_sent_by(p, flows);
  return flows;
}

std::vector<Flow> flows_from(const Program& program, const Operation& operation, RankId rank) {
  return flows_from(program, operation, std::span(&rank, 1));
}

std::vector<Flow> flows_from(const Program& program, const Operation& operation, std::span<const RankId> ranks) {
  const GroupFamily& family = program.group(operation.communication()->group);
  std::vector<Flow> flows;
  std::optional<std::pair<RankId, FlowBytes>> of_group;  // with its first rank
  for (const RankId rank : ranks) {
    const RankId base = family.base(rank);
    if (!of_group || of_group->first != base) of_group.emplace(base, FlowBytes(program, operation, base));
    of_group->second.add_sent_by(family.position(rank), flows);
  }
  return flows;
}

std::vector<Flow> flows_to(const Program& program, const Operation& operation, RankId rank) {
  const GroupFamily& family = program.group(operation.communication()->group);
  std::vector<Flow> flows;
  FlowBytes(program, operation, rank).add_received_by(family.position(rank), flows);
  return flows;
}

std::int64_t message_size(const Program& program, const Operation& operation, RankId rank) {
  const Communication& c = *operation.communication();
  const GroupFamily& family = program.group(c.group);
  std::int64_t total = 0;
  if (is_pairwise(c)) {
    const Buffer& buffer = program.buffer(operation.reads.front().buffer);
    PairRows pair_rows(program, operation);
    for_peers(c, family, family.position(rank), 1,
              [&](std::int64_t p) { total += pair_rows.between(rank, family.member(rank, p)); });
    return total * buffer.columns * size_of(buffer.dtype);
  }
  if (is_to_copies(operation)) {
    for (std::int64_t p = 0; p < family.size; ++p) {
      const RankId member = family.member(rank, p);
      total = std::max({total, byte_count(program, operation.reads.front(), member),
                        byte_count(program, operation.writes.front(), member)});
    }
    return total;
  }
  const Slice& input = operation.reads.front();
  if (c.collective != Collective::AllGather) return byte_count(program, input, rank);
  if (equal_on_all_ranks(program, input.rows)) return family.size * byte_count(program, input, rank);
  for (std::int64_t p = 0; p < family.size; ++p) {
    total += byte_count(program, input, family.member(rank, p));
  }
  return total;
}

}  // namespace moeplan
