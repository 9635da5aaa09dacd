#include "model/program/resolve.hpp"

#include <algorithm>
#include <cassert>
#include <map>
#include <set>
#include <utility>

#include "model/base/whole_numbers.hpp"
#include "model/program/row_sets.hpp"

namespace moeplan {

namespace {

/// The rank's shares, one after the other from the end of the path, of `each` rows.
std::int64_t fixed_rows(const Program& program, const Rows& rows, RankId rank) {
  std::int64_t n = rows.each;
  for (auto step = rows.path.rbegin(); step != rows.path.rend(); ++step) {
    assert(step->kind == RowStep::Kind::Share && "fixed rows are divided, not gathered");
    const GroupFamily& family = program.group(step->group);
    n = part(n, family.position(rank), family.size);
  }
  return n;
}

}  // namespace

std::int64_t row_count(const Program& program, const Rows& rows, RankId rank) {
  switch (rows.kind) {
    case Rows::Kind::Fixed: return fixed_rows(program, rows, rank);
    case Rows::Kind::Tokens: return token_rows(program, rows, rank);
    case Rows::Kind::PerExpert: return rows.each * weights_of(program, rows, rank);
    case Rows::Kind::Routed: return rows_over(program, rows, rows.path, rank, experts_of(program, rows, rank));
  }
  return 0;
}

std::vector<std::int64_t> rows_by_expert(const Program& program, const Rows& rows, RankId rank) {
  assert(rows.kind == Rows::Kind::Routed && "only routed rows belong to experts");
  const ExpertSet experts = experts_of(program, rows, rank);
  if (!rows.distinct && !program.routings[rows.routing.index()].counts.is_uniform())
    return rows_of_each(program, rows, rows.path, rank, experts);
  std::vector<std::int64_t> out;
  for (const ExpertRange& range : experts) {
    for (std::int64_t e = range.first; e < range.last; ++e) {
      const bool is_known = program.routings[rows.routing.index()].counts.is_uniform() && !out.empty();
      out.push_back(is_known ? out.front() : rows_over(program, rows, rows.path, rank, {{e, e + 1}}));
    }
  }
  return out;
}

std::int64_t byte_count(const Program& program, const Slice& slice, RankId rank) {
  const Buffer& buffer = program.buffer(slice.buffer);
  return row_count(program, slice.rows, rank) * buffer.columns * size_of(buffer.dtype);
}

namespace {

/// By expert and, for each expert, by member of the union at the start of the path.
std::vector<std::int64_t> rows_by_source(const Program& program, const Rows& rows, RankId rank) {
  assert(!rows.path.empty() && rows.path.front().kind == RowStep::Kind::Union && "the rows of several sources");
  const GroupFamily& family = program.group(rows.path.front().group);
  const std::span<const RowStep> rest = std::span(rows.path).subspan(1);
  std::vector<std::int64_t> out;
  for (const ExpertRange& range : experts_of(program, rows, rank)) {
    for (std::int64_t e = range.first; e < range.last; ++e) {
      for (std::int64_t p = 0; p < family.size; ++p)
        out.push_back(rows_over(program, rows, rest, family.member(rank, p), {{e, e + 1}}));
    }
  }
  return out;
}

}  // namespace

ComputeLoad compute_load(const Program& program, const Operation& operation, RankId rank) {
  ComputeLoad load;
  for (const Slice& s : operation.reads) load.bytes += byte_count(program, s, rank);
  for (const Slice& s : operation.writes) load.bytes += byte_count(program, s, rank);
  if (const auto* attention = std::get_if<AttentionCore>(&operation.work)) {
    // A query sees all keys or those of the window. If causal, only those before it: the i-th sees min(i, window), on
    // average window - window^2 / (2 length), or half the length without a window. Backward has five products instead
    // of two.
    const auto tokens = static_cast<double>(row_count(program, operation.reads.front().rows, rank));
    const auto length = static_cast<double>(attention->sequence_length);
    const double window = attention->window > 0 ? std::min(length, static_cast<double>(attention->window)) : length;
    const double keys = attention->causal && length > 0 ? window - window * window / (2 * length) : window;
    const auto columns = static_cast<double>(attention->heads.query_columns() + attention->heads.output_columns());
    load.flops = 2 * tokens * keys * columns * (attention->backward ? kAttentionBackwardProducts : 1.0);
  }
  if (const auto* products = std::get_if<FusedProducts>(&operation.work)) {
    load.flops =
        2 * products->multiply_adds * static_cast<double>(row_count(program, operation.reads.front().rows, rank));
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
      if (gemm->by_source) load.sources = program.group(a.rows.path.front().group).size;
      for (const std::int64_t rows :
           gemm->by_source ? rows_by_source(program, a.rows, rank) : rows_by_expert(program, a.rows, rank)) {
        add(rows);
      }
    } else {
      add(row_count(program, a.rows, rank));
    }
  }
  return load;
}

Bytes bytes_of_shapes(const Program& program, std::size_t stage, Dtype dtype) {
  std::set<std::pair<std::int64_t, std::int64_t>> shapes;  // rows, columns
  const std::vector<std::int64_t> executions = block_counts(program, stage);
  for (std::size_t b = 0; b < executions.size(); ++b) {
    if (executions[b] == 0) continue;
    for (const Operation& operation : program.blocks[b].operations) {
      if (!operation.computes_weight_gradient()) continue;
      const Slice& gradient = operation.writes.front();
      shapes.emplace(gradient.rows.each, program.buffer(gradient.buffer).columns);
    }
  }
  std::int64_t elements = 0;
  for (const auto& [rows, columns] : shapes) elements += rows * columns;
  return Bytes(static_cast<double>(elements * size_of(dtype)));
}

std::vector<ExpertChain> expert_chains(const Program& program, const Operation& operation, RankId member) {
  const GroupFamily& family = program.group(operation.communication()->group);
  const RoutingTable& table = program.routings[operation.reads.front().rows.routing.index()];
  const std::int64_t per_node = members_per_node(program, family);
  struct Chain {
    std::int64_t home = 0;
    std::vector<std::int64_t> copies;
  };
  std::map<ExpertId, Chain> chains;
  for (std::int64_t p = 0; p < family.size; ++p) {
    const ExpertRange held = local_experts(program, operation.reads.front().rows.routing, family.member(member, p));
    for (std::int64_t s = held.first; s < held.last && !table.slots.empty(); ++s) {
      const std::optional<ExpertSlot>& slot = table.slots[static_cast<std::size_t>(s)];
      if (!slot) continue;
      slot->is_home ? (void)(chains[slot->expert].home = p) : chains[slot->expert].copies.push_back(p);
    }
  }
  std::vector<ExpertChain> out;
  for (auto& [expert, chain] : chains) {
    std::stable_partition(chain.copies.begin(), chain.copies.end(),
                          [&, home = chain.home](std::int64_t p) { return p / per_node == home / per_node; });
    out.push_back({expert, {chain.home}});
    out.back().positions.insert(out.back().positions.end(), chain.copies.begin(), chain.copies.end());
  }
  return out;
}

}  // namespace moeplan
