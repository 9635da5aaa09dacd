#include "model/program/equal_ranks.hpp"

#include <algorithm>

#include "model/base/whole_numbers.hpp"
#include "model/program/row_sets.hpp"

namespace moeplan {

namespace {

/// Whether all holders get the same from all sources, expert by expert of their shares.
bool even_holders(const Program& program, const RoutingTable& table) {
  const std::int64_t experts = table.counts.experts(), holders = program.group(table.holders).size;
  if (!table.counts.same_for_all_sources() || experts % holders != 0) return false;
  if (table.counts.is_uniform()) return true;
  for (std::int64_t e = experts / holders; e < experts; ++e) {
    const std::int64_t before = e - experts / holders;
    if (table.counts.at(RankId(0), ExpertId(static_cast<std::int32_t>(e))) !=
        table.counts.at(RankId(0), ExpertId(static_cast<std::int32_t>(before)))) {
      return false;
    }
  }
  return true;
}

/// Whether `n` rows for one expert are cut into whole shares all along a path, and no rank has them for others. (Of
/// distinct rows there are fewer, but as many on every rank if this is so.)
bool divides(const Program& program, const std::vector<RowStep>& path, std::int64_t n) {
  for (auto step = path.rbegin(); step != path.rend(); ++step) {
    const std::int64_t size = program.group(step->group).size;
    switch (step->kind) {
      case RowStep::Kind::Union: n *= size / step->count; break;
      case RowStep::Kind::Copies: n *= size; break;
      case RowStep::Kind::Share:
        if (n % size != 0) return false;
        n /= size;
        break;
      case RowStep::Kind::Leader:
        if (size > 1) return false;
        break;
      case RowStep::Kind::Chunk: n = chunk_rows(n, *step); break;
    }
  }
  return true;
}

/// Notes what the communication needs; false where ranks differ by their position.
bool note(const Program& program, const Operation& operation, SymmetryQuery& query) {
  const Communication& c = *operation.communication();
  const GroupFamily& family = program.group(c.group);
  if (family.size == 1) return true;
  query.boundaries.push_back(family.stride);
  query.boundaries.push_back(family.stride * family.size);
  const bool pairwise = c.collective == Collective::AllToAll || c.collective == Collective::SendReceive;
  if (pairwise && c.of > 1) {  // parts go by the difference of block numbers modulo their count
    const std::int64_t block = family.stride * (family.size / c.of);
    query.boundaries.push_back(block);
    if (c.paired) {  // or bit by bit: then every bit is a digit
      for (std::int64_t b = block; b < family.stride * family.size; b *= 2) query.boundaries.push_back(b);
    } else {
      query.cyclic.emplace_back(block, family.stride * family.size);
    }
  }
  const bool cut_by_position =
      pairwise ? operation.reads.front().rows.kind == Rows::Kind::Fixed : c.collective != Collective::AllGather;
  if (cut_by_position && row_count(program, operation.reads.front().rows, RankId(0)) % family.size != 0) return false;
  if (pairwise) return true;
  if (c.collective == Collective::Broadcast || c.pattern == Pattern::Tree) return false;
  // Each ring carries an equal part of every block.
  const std::int64_t whole = byte_count(program, operation.reads.front(), RankId(0));
  const std::int64_t block = c.collective == Collective::AllGather ? whole : whole / family.size;
  if (block % members_per_node(program, family) != 0) return false;
  query.rings.push_back({family.size, family.stride, members_per_node(program, family)});
  return true;
}

}  // namespace

bool even_rows(const Program& program, const Rows& rows) {
  if (rows.kind == Rows::Kind::Fixed) return true;
  if (rows.kind == Rows::Kind::Tokens) {  // every source has as many
    return std::none_of(rows.path.begin(), rows.path.end(), [&](const RowStep& s) {
      const bool by_position = s.kind == RowStep::Kind::Share || s.kind == RowStep::Kind::Leader;
      return by_position && program.group(s.group).size > 1;
    });
  }
  const RoutingTable& table = program.routings[rows.routing.index()];
  if (!even_holders(program, table)) return false;
  if (rows.kind == Rows::Kind::PerExpert) return true;
  const std::int64_t each = table.counts.is_uniform() ? 1 : table.counts.experts() / program.group(table.holders).size;
  for (std::int64_t e = 0; e < each; ++e) {
    if (!divides(program, rows.path, table.counts.at(RankId(0), ExpertId(static_cast<std::int32_t>(e))))) return false;
  }
  return true;
}

std::optional<SymmetryQuery> symmetry_query(const Program& program) {
  if (program.stages.size() > 1) return std::nullopt;
  SymmetryQuery query;
  for (const RoutingTable& table : program.routings) {
    if (!even_holders(program, table)) return std::nullopt;
    const GroupFamily& holders = program.group(table.holders);
    query.boundaries.push_back(holders.stride);
    query.boundaries.push_back(holders.stride * holders.size);
  }
  for (const Block& block : program.blocks) {
    for (const Operation& op : block.operations) {
      for (const Slice& s : op.reads) {
        if (!even_rows(program, s.rows)) return std::nullopt;
      }
      for (const Slice& s : op.writes) {
        if (!even_rows(program, s.rows)) return std::nullopt;
      }
      const auto* send = std::get_if<Send>(&op.work);
      if (send && program.group(send->group).size > 1) return std::nullopt;
      if (op.communication() && !note(program, op, query)) return std::nullopt;
    }
  }
  auto& b = query.boundaries;
  std::sort(b.begin(), b.end());
  b.erase(std::unique(b.begin(), b.end()), b.end());
  std::erase_if(b, [&](std::int64_t x) { return x == 1 || x == program.world_size; });
  std::sort(query.cyclic.begin(), query.cyclic.end());
  query.cyclic.erase(std::unique(query.cyclic.begin(), query.cyclic.end()), query.cyclic.end());
  std::sort(query.rings.begin(), query.rings.end());
  query.rings.erase(std::unique(query.rings.begin(), query.rings.end()), query.rings.end());
  return query;
}

bool runs_in_rings(const Communication& c) {
  return c.pattern == Pattern::Ring &&
         (c.collective == Collective::AllGather || c.collective == Collective::ReduceScatter ||
          c.collective == Collective::AllReduce);
}

const SymmetricView::Way& way_of_flow(const SymmetricView& view, const Program& program, const Operation& operation,
                                      RankId to) {
  const Communication& c = *operation.communication();
  if (!runs_in_rings(c)) return view.ways[static_cast<std::size_t>(view.way_to[to.index()])];
  const GroupFamily& family = program.group(c.group);
  const std::int64_t per_node = members_per_node(program, family);
  const SymmetricView::RingWays& ways = view.rings.at({family.size, family.stride, per_node});
  return family.position(to) == ring_edges(0, family.size, per_node).along ? ways.along : ways.across;
}

const SymmetricView* equal_ranks_view(const Program& program, const Cluster& cluster) {
  if (program.world_size != cluster.world_size() || program.world_size == 1) return nullptr;
  const auto query = symmetry_query(program);
  return query ? symmetric_view(cluster, *query) : nullptr;
}

}  // namespace moeplan
