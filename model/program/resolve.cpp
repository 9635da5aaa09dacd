#include "model/program/resolve.hpp"

#include <algorithm>
#include <cassert>
#include <span>

#include "model/base/whole_numbers.hpp"
#include "model/program/tree_edges.hpp"

namespace moeplan {

namespace {

/// Rows for one expert along the rest of a path.
std::int64_t expert_rows(const Program& program, const RoutingTable& table, std::span<const RowStep> path, RankId rank,
                         ExpertId expert) {
  if (path.empty()) {
    return table.counts.at(RankId(static_cast<std::int32_t>(rank.value() % table.counts.sources())), expert);
  }
  const RowStep& step = path.front();
  const auto rest = path.subspan(1);
  switch (step.kind) {
    case RowStep::Kind::Chunk: return part(expert_rows(program, table, rest, rank, expert), step.index, step.count);
    case RowStep::Kind::Copies: return program.group(step.group).size * expert_rows(program, table, rest, rank, expert);
    case RowStep::Kind::Share: {
      const GroupFamily& family = program.group(step.group);
      return part(expert_rows(program, table, rest, rank, expert), family.position(rank), family.size);
    }
    case RowStep::Kind::Union: {
      const GroupFamily& family = program.group(step.group);
      // Equal members need one look only: with one count for everything, rows differ only through shares.
      const bool shares =
          std::any_of(rest.begin(), rest.end(), [](const RowStep& s) { return s.kind == RowStep::Kind::Share; });
      if (table.counts.same_for_all_sources() && !shares) {
        return family.size * expert_rows(program, table, rest, rank, expert);
      }
      std::int64_t sum = 0;
      for (std::int64_t p = 0; p < family.size; ++p) {
        sum += expert_rows(program, table, rest, family.member(rank, p), expert);
      }
      return sum;
    }
  }
  return 0;
}

std::int64_t rows_over(const Program& program, const Rows& rows, std::span<const RowStep> path, RankId rank,
                       ExpertRange range) {
  const RoutingTable& table = program.routings[rows.routing.index()];
  if (range.size() == 0) return 0;
  if (table.counts.is_uniform()) {
    return range.size() * expert_rows(program, table, path, rank, ExpertId(static_cast<std::int32_t>(range.first)));
  }
  std::int64_t sum = 0;
  for (std::int64_t e = range.first; e < range.last; ++e) {
    sum += expert_rows(program, table, path, rank, ExpertId(static_cast<std::int32_t>(e)));
  }
  return sum;
}

ExpertRange range_of(const Program& program, const Rows& rows, RankId rank) {
  const RoutingTable& table = program.routings[rows.routing.index()];
  switch (rows.experts) {
    case Rows::Experts::All: break;
    case Rows::Experts::Local: return local_experts(program, rows.routing, rank);
    case Rows::Experts::Paired: {
      const GroupFamily& family = program.group(table.holders);
      return local_experts(program, rows.routing, family.member(rank, family.position(rank) ^ rows.behind));
    }
    case Rows::Experts::Behind: {
      const GroupFamily& family = program.group(table.holders);
      const std::int64_t holder = (family.position(rank) - rows.behind + family.size) % family.size;
      return local_experts(program, rows.routing, family.member(rank, holder));
    }
  }
  return {0, table.counts.experts()};
}

/// Rows that `from` sends to `to` in an all-to-all.
std::int64_t rows_between(const Program& program, const Operation& operation, const Communication& c, RankId from,
                          RankId to) {
  const Rows& rows = operation.reads.front().rows;
  const GroupFamily& family = program.group(c.group);
  switch (rows.kind) {
    case Rows::Kind::Fixed: return part(rows.each, family.position(to), family.size);
    case Rows::Kind::LocalExperts: break;
    case Rows::Kind::Routed:
      if (rows.experts == Rows::Experts::All) {
        return rows_over(program, rows, rows.path, from, local_experts(program, rows.routing, to));
      }
      assert(rows.experts == Rows::Experts::Local && !rows.path.empty() &&
             rows.path.front().kind == RowStep::Kind::Union && rows.path.front().group == c.group &&
             "a combine returns what this group sent");
      return rows_over(program, rows, std::span(rows.path).subspan(1), to, local_experts(program, rows.routing, from));
  }
  assert(false && "weights do not go through an all-to-all");
  return 0;
}

bool takes_part(const Communication& c, const GroupFamily& family, std::int64_t from, std::int64_t to) {
  if (c.of == 1) return true;
  assert(family.size % c.of == 0 && "an exchange in parts has equal blocks");
  const std::int64_t block = family.size / c.of;
  const std::int64_t offset = c.paired ? (to / block) ^ (from / block) : (to / block - from / block + c.of) % c.of;
  return offset >= c.first && offset < c.first + c.count;
}

bool is_pairwise(const Communication& c) {
  return c.collective == Collective::AllToAll || c.collective == Collective::SendReceive;
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
    const Slice& input = operation.reads.front();
    const Buffer& buffer = program.buffer(input.buffer);
    row_bytes_ = buffer.columns * size_of(buffer.dtype);
    if (family_.size == 1 || is_pairwise(c_)) return;
    if (c_.collective == Collective::Broadcast) {
      total_ = row_count(program, input.rows, base_) * row_bytes_;
      return;
    }
    for (std::int64_t p = 0; p < family_.size; ++p) {
      const std::int64_t rows = row_count(program, input.rows, rank(p));
      block_.push_back(row_bytes_ * (c_.collective == Collective::AllGather ? rows : part(rows, p, family_.size)));
      total_ += block_.back();
    }
  }

  void add_sent_by(std::int64_t from, std::vector<Flow>& flows) const {
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
    for_peers(from, 1, [&](std::int64_t to) { add(from, to, flows); });
  }

  void add_received_by(std::int64_t to, std::vector<Flow>& flows) const {
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
    for_peers(to, -1, [&](std::int64_t from) { add(from, to, flows); });
  }

 private:
  [[nodiscard]] RankId rank(std::int64_t position) const { return family_.member(base_, position); }

  [[nodiscard]] bool is_tree() const { return !is_pairwise(c_) && c_.pattern == Pattern::Tree; }
  [[nodiscard]] std::vector<TreeEdge> edges_of_tree(std::int64_t position) const {
    return tree_edges(c_.collective, position, family_.size, per_node_, total_);
  }
  [[nodiscard]] bool is_chain() const { return c_.collective == Collective::Broadcast; }
  [[nodiscard]] bool has_across() const { return per_node_ > 1 && per_node_ < family_.size; }

  /// Inside the node: all rings but the one that leaves the node here.
  void add_along(std::int64_t from, std::int64_t to, std::vector<Flow>& flows) const {
    if (from == to) return;
    const std::int64_t all = ring_bytes(from, to);
    const std::int64_t bytes = has_across() ? all - part(all, to % per_node_, per_node_) : all;
    if (bytes > 0) flows.push_back({rank(from), rank(to), bytes});
  }
  void add_across(std::int64_t from, std::int64_t to, std::vector<Flow>& flows) const {
    if (!has_across()) return;
    const std::int64_t bytes = part(ring_bytes(from, to), to % per_node_, per_node_);
    if (bytes > 0) flows.push_back({rank(from), rank(to), bytes});
  }

  void add(std::int64_t from, std::int64_t to, std::vector<Flow>& flows) const {
    if (from == to) return;
    const std::int64_t bytes = is_pairwise(c_) ? pair_bytes(from, to) : ring_bytes(from, to);
    if (bytes > 0) flows.push_back({rank(from), rank(to), bytes});
  }

  /// The positions, in order, that one sends to (direction 1) or receives from (-1) in this part of the exchange: whole
  /// blocks, cyclically.
  template <class Visit>
  void for_peers(std::int64_t position, std::int64_t direction, Visit&& visit) const {
    const std::int64_t block = family_.size / c_.of, blocks = std::min(c_.count, c_.of);
    if (c_.paired) {
      std::vector<std::int64_t> partners;
      for (std::int64_t j = c_.first; j < c_.first + blocks; ++j) partners.push_back((position / block) ^ j);
      std::sort(partners.begin(), partners.end());
      for (const std::int64_t partner : partners) {
        for (std::int64_t p = partner * block; p < (partner + 1) * block; ++p) visit(p);
      }
      return;
    }
    const std::int64_t nearest = position / block + direction * (direction > 0 ? c_.first : c_.first + blocks - 1);
    const std::int64_t begin = ((nearest % c_.of) + c_.of) % c_.of * block, end = begin + blocks * block;
    for (std::int64_t p = 0; p < end - family_.size; ++p) visit(p);
    for (std::int64_t p = begin; p < std::min(end, family_.size); ++p) visit(p);
  }

  [[nodiscard]] std::int64_t pair_bytes(std::int64_t from, std::int64_t to) const {
    if (!takes_part(c_, family_, from, to)) return 0;
    return row_bytes_ * rows_between(program_, operation_, c_, rank(from), rank(to));
  }

  /// To the next position. A ring passes on all blocks but one: the receiver's own when they are gathered, the
  /// sender's own when they are added up.
  [[nodiscard]] std::int64_t ring_bytes(std::int64_t from, std::int64_t to) const {
    if (c_.collective == Collective::Broadcast) return to == 0 ? 0 : total_;
    const std::int64_t own = block_[static_cast<std::size_t>(from)], theirs = block_[static_cast<std::size_t>(to)];
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

  const Program& program_;
  const Operation& operation_;
  const Communication& c_;
  const GroupFamily& family_;
  RankId base_;
  std::int64_t row_bytes_ = 0;
  std::int64_t per_node_;
  std::int64_t total_ = 0;           // of a ring, a chain or a tree
  std::vector<std::int64_t> block_;  // of a ring: what each position owns
};

}  // namespace

ExpertRange local_experts(const Program& program, RoutingId routing, RankId rank) {
  const RoutingTable& table = program.routings[routing.index()];
  const GroupFamily& family = program.group(table.holders);
  const std::int64_t experts = table.counts.experts();
  const std::int64_t position = family.position(rank);
  const std::int64_t base = experts / family.size, extra = experts % family.size;
  const std::int64_t first = position * base + std::min(position, extra);
  return {first, first + base + (position < extra ? 1 : 0)};
}

std::int64_t row_count(const Program& program, const Rows& rows, RankId rank) {
  switch (rows.kind) {
    case Rows::Kind::Fixed: return rows.each;
    case Rows::Kind::LocalExperts: return rows.each * local_experts(program, rows.routing, rank).size();
    case Rows::Kind::Routed: return rows_over(program, rows, rows.path, rank, range_of(program, rows, rank));
  }
  return 0;
}

std::vector<std::int64_t> rows_by_expert(const Program& program, const Rows& rows, RankId rank) {
  assert(rows.kind == Rows::Kind::Routed && "only routed rows belong to experts");
  const RoutingTable& table = program.routings[rows.routing.index()];
  const ExpertRange range = range_of(program, rows, rank);
  std::vector<std::int64_t> out;
  for (std::int64_t e = range.first; e < range.last; ++e) {
    if (table.counts.is_uniform() && !out.empty()) {
      out.push_back(out.front());
    } else {
      out.push_back(expert_rows(program, table, rows.path, rank, ExpertId(static_cast<std::int32_t>(e))));
    }
  }
  return out;
}

std::int64_t byte_count(const Program& program, const Slice& slice, RankId rank) {
  const Buffer& buffer = program.buffer(slice.buffer);
  return row_count(program, slice.rows, rank) * buffer.columns * size_of(buffer.dtype);
}

ComputeLoad compute_load(const Program& program, const Operation& operation, RankId rank) {
  ComputeLoad load;
  for (const Slice& s : operation.reads) load.bytes += byte_count(program, s, rank);
  for (const Slice& s : operation.writes) load.bytes += byte_count(program, s, rank);
  if (const auto* attention = std::get_if<AttentionCore>(&operation.work)) {
    // A query meets all keys or the window's. Causal, only those before it: the i-th meets min(i, window), on average
    // window - window^2 / (2 length), half the length without a window. Backward: five products for two.
    const auto tokens = static_cast<double>(row_count(program, operation.reads.front().rows, rank));
    const auto length = static_cast<double>(attention->sequence_length);
    const double window = attention->window > 0 ? std::min(length, static_cast<double>(attention->window)) : length;
    const double keys = attention->causal && length > 0 ? window - window * window / (2 * length) : window;
    const auto columns = static_cast<double>(attention->query_columns + attention->value_columns);
    load.flops = 2 * tokens * keys * columns * (attention->backward ? 2.5 : 1.0);
  }
  if (const auto* gemm = std::get_if<Gemm>(&operation.work)) {
    const Slice& a = operation.reads[0];
    const Slice& other = gemm->form == Gemm::Form::TN ? operation.reads[1] : operation.writes[0];
    const std::int64_t a_columns = program.buffer(a.buffer).columns;
    const std::int64_t other_columns = program.buffer(other.buffer).columns;
    const auto add = [&](std::int64_t rows) {
      load.products.push_back(gemm->form == Gemm::Form::TN ? GemmShape{a_columns, other_columns, rows}
                                                           : GemmShape{rows, other_columns, a_columns});
      load.flops +=
          2.0 * static_cast<double>(rows) * static_cast<double>(a_columns) * static_cast<double>(other_columns);
    };
    if (gemm->grouped) {
      for (const std::int64_t rows : rows_by_expert(program, a.rows, rank)) add(rows);
    } else {
      add(row_count(program, a.rows, rank));
    }
  }
  return load;
}

std::vector<Flow> group_flows(const Program& program, const Operation& operation, RankId member) {
  const GroupFamily& family = program.group(operation.communication()->group);
  const FlowBytes flow_bytes(program, operation, member);
  std::vector<Flow> flows;
  for (std::int64_t p = 0; p < family.size; ++p) flow_bytes.add_sent_by(p, flows);
  return flows;
}

std::vector<Flow> flows_from(const Program& program, const Operation& operation, RankId rank) {
  const GroupFamily& family = program.group(operation.communication()->group);
  std::vector<Flow> flows;
  FlowBytes(program, operation, rank).add_sent_by(family.position(rank), flows);
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
    for (std::int64_t p = 0; p < family.size; ++p) {
      if (!takes_part(c, family, family.position(rank), p)) continue;
      total +=
          rows_between(program, operation, c, rank, family.member(rank, p)) * buffer.columns * size_of(buffer.dtype);
    }
    return total;
  }
  if (c.collective != Collective::AllGather) return byte_count(program, operation.reads.front(), rank);
  for (std::int64_t p = 0; p < family.size; ++p) {
    total += byte_count(program, operation.reads.front(), family.member(rank, p));
  }
  return total;
}

}  // namespace moeplan
