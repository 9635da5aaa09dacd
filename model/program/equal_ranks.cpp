#include "model/program/equal_ranks.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "model/base/whole_numbers.hpp"
#include "model/program/resolve.hpp"
#include "model/program/row_sets.hpp"

namespace moeplan {

namespace {

/// Whether the counts of all sources, which are equal, repeat after every `step` experts.
bool repeat_after(const RoutingCounts& counts, std::int64_t step) {
  if (counts.is_uniform()) return true;
  const auto at = [&](std::int64_t e) { return counts.at(RankId(0), ExpertId(static_cast<std::int32_t>(e))); };
  for (std::int64_t e = step; e < counts.experts(); ++e) {
    if (at(e) != at(e - step)) return false;
  }
  return true;
}

/// Whether all sources have equal counts and no expert is placed.
bool has_equal_sources(const RoutingTable& table) { return table.counts.same_for_all_sources() && table.slots.empty(); }

/// The least number of holders after which numbers of experts and, from all sources, which are equal, their counts
/// repeat, expert by expert.
std::int64_t period_of_holders(const Program& program, const RoutingTable& table) {
  const std::int64_t experts = table.counts.experts(), holders = program.group(table.holders).size;
  for (std::int64_t period = holders / std::gcd(experts, holders); period < holders; ++period) {
    if (holders % period == 0 && experts * period % holders == 0 &&
        repeat_after(table.counts, experts * period / holders))
      return period;
  }
  return holders;
}

/// Whether all holders get equal counts from all sources, expert by expert of their ranges.
bool even_holders(const Program& program, const RoutingTable& table) {
  const std::int64_t experts = table.counts.experts(), holders = program.group(table.holders).size;
  return has_equal_sources(table) && experts % holders == 0 && repeat_after(table.counts, experts / holders);
}

/// The groups whose members get different parts of `n` rows along a path (some rank gets other rows, or parts are not
/// integral; for `tokens`, any division), and the groups after them. (There are fewer than n distinct rows, but equally
/// many on every rank if the result is empty.)
std::vector<GroupId> uneven_groups(const Program& program, const std::vector<RowStep>& path, std::int64_t n,
                                   bool tokens) {
  std::vector<GroupId> groups;
  for (auto step = path.rbegin(); step != path.rend(); ++step) {
    if (step->kind == RowStep::Kind::Chunk) {
      n = chunk_rows(n, *step);
      continue;
    }
    const std::int64_t size = program.group(step->group).size;
    const bool splits = step->kind == RowStep::Kind::Share && (tokens || n % size != 0);
    if (size > 1 && (!groups.empty() || splits || step->kind == RowStep::Kind::Leader)) {
      groups.push_back(step->group);
      continue;
    }
    if (step->kind == RowStep::Kind::Union) n *= size / step->count;
    if (step->kind == RowStep::Kind::Copies) n *= size;
    if (step->kind == RowStep::Kind::Share) n /= size;
  }
  return groups;
}

/// The same for all experts of a slice.
std::vector<GroupId> uneven_groups(const Program& program, const Rows& rows) {
  if (rows.kind == Rows::Kind::Tokens) return uneven_groups(program, rows.path, rows.each, true);
  std::vector<GroupId> groups;
  if (rows.kind != Rows::Kind::Routed) return groups;
  const RoutingTable& table = program.routings[rows.routing.index()];
  const std::int64_t experts = table.counts.experts();
  const std::int64_t different = table.counts.is_uniform()      ? 1
                                 : even_holders(program, table) ? experts / program.group(table.holders).size
                                                                : experts;
  std::vector<std::int64_t> counts;  // different ones, sorted
  for (std::int64_t e = 0; e < different; ++e) {
    const std::int64_t n = table.counts.at(RankId(0), ExpertId(static_cast<std::int32_t>(e)));
    const auto at = std::lower_bound(counts.begin(), counts.end(), n);
    if (at == counts.end() || *at != n) counts.insert(at, n);
  }
  for (const std::int64_t n : counts) {
    for (const GroupId g : uneven_groups(program, rows.path, n, false)) {
      if (std::find(groups.begin(), groups.end(), g) == groups.end()) groups.push_back(g);
    }
  }
  return groups;
}

/// Whether every rank holds weights of, or rows for, equally many and equally loaded experts.
bool even_experts(const Program& program, const Rows& rows) {
  if (rows.kind == Rows::Kind::Fixed || rows.kind == Rows::Kind::Tokens) return true;
  return even_holders(program, program.routings[rows.routing.index()]);
}

/// Collects the symmetry requirements of a Program's operations.
class Query {
 public:
  explicit Query(const Program& program) : program_(program) {}

  /// False if sources' counts differ, or experts are placed.
  bool note(const RoutingTable& table) {
    if (!has_equal_sources(table)) return false;
    const GroupFamily& holders = program_.group(table.holders);
    note_group(holders);
    fix(holders, period_of_holders(program_, table));
    return true;
  }

  /// False for a message between ranks.
  bool note(const Operation& op) {
    for (const Slice& s : op.reads) note_rows(s.rows);
    for (const Slice& s : op.writes) note_rows(s.rows);
    if (op.communication()) note_communication(op);
    const auto* send = std::get_if<Send>(&op.work);
    return !send || program_.group(send->group).size == 1;
  }

  [[nodiscard]] SymmetryQuery finish() && {
    sort(query_.boundaries);
    sort(query_.cyclic);
    sort(query_.rings);
    sort(query_.fixed);
    std::erase_if(query_.boundaries, [&](std::int64_t x) { return x == 1 || x == program_.world_size; });
    return std::move(query_);
  }

 private:
  void note_group(const GroupFamily& family) {
    query_.boundaries.push_back(family.stride);
    query_.boundaries.push_back(family.stride * family.size);
  }

  /// Marks the family as fixed: its members are distinguishable by position, or by position modulo `period`, which
  /// divides their number.
  void fix(const GroupFamily& family, std::int64_t period) {
    if (period == 1) return;
    note_group(family);
    query_.boundaries.push_back(family.stride * period);
    query_.fixed.push_back(family.stride * period);
  }
  void fix(const GroupFamily& family) { fix(family, family.size); }

  /// Whether all ranks hold equally many rows.
  bool note_rows(const Rows& rows) {
    if (rows.kind == Rows::Kind::Fixed) return true;
    if (rows.experts == Rows::Experts::Held) note_group(program_.group(rows.holders));
    const std::vector<GroupId> uneven = uneven_groups(program_, rows);
    for (const GroupId g : uneven) fix(program_.group(g));
    return uneven.empty() && even_experts(program_, rows);
  }

  void note_communication(const Operation& operation) {
    const Communication& c = *operation.communication();
    const GroupFamily& family = program_.group(c.group);
    if (family.size == 1) return;
    note_group(family);
    const Rows& rows = operation.reads.front().rows;
    const bool pairwise = c.collective == Collective::AllToAll || c.collective == Collective::SendReceive;
    if (pairwise) {
      if (c.relays) note_group(program_.group(*c.relays));
      note_parts(c, family);
      note_shift(rows);
      note_shift(operation.writes.front().rows);
      if (rows.kind == Rows::Kind::Fixed && rows.each % family.size != 0) fix(family);
      return;
    }
    if (c.collective == Collective::Broadcast || c.pattern == Pattern::Tree || !note_rows(rows)) return fix(family);
    if (c.collective != Collective::AllGather && row_count(program_, rows, RankId(0)) % family.size != 0) {
      return fix(family);
    }
    query_.rings.push_back({family.size, family.stride, members_per_node(program_, family)});
  }

  /// Parts of an exchange depend on the difference of block numbers modulo their count.
  void note_parts(const Communication& c, const GroupFamily& family) {
    if (c.of == 1) return;
    const std::int64_t block = family.stride * (family.size / c.of);
    query_.boundaries.push_back(block);
    if (c.paired) {  // or on each bit: then every bit is a digit
      for (std::int64_t b = block; b < family.stride * family.size; b *= 2) query_.boundaries.push_back(b);
    } else {
      query_.cyclic.emplace_back(block, family.stride * family.size);
    }
  }

  /// So do the experts of the holder a given number of positions before the rank.
  void note_shift(const Rows& rows) {
    const bool in_groups = rows.experts == Rows::Experts::Held;
    if (rows.kind != Rows::Kind::Routed || rows.behind == 0) return;
    if (!in_groups && rows.experts != Rows::Experts::Behind) return;
    const GroupFamily& holders = program_.group(program_.routings[rows.routing.index()].holders);
    const std::int64_t step = holders.stride * (in_groups ? program_.group(rows.holders).size : 1);
    query_.boundaries.push_back(step);
    query_.cyclic.emplace_back(step, holders.stride * holders.size);
  }

  template <class T>
  static void sort(std::vector<T>& values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
  }

  const Program& program_;
  SymmetryQuery query_;
};

/// The properties that determine how many rows a rank has, apart from the load of its experts, if all sources have the
/// same counts.
struct RankDigits {
  std::set<GroupId> shares;        // its position in the groups that split rows
  std::set<RoutingId> neighbours;  // its position among the holders, if it has rows of other holders
};

RankDigits rank_digits(const Program& program) {
  RankDigits digits;
  const auto look = [&](const Slice& s) {
    if (even_rows(program, s.rows)) return;
    for (const RowStep& step : s.rows.path) {
      if (step.kind == RowStep::Kind::Share || step.kind == RowStep::Kind::Leader) digits.shares.insert(step.group);
    }
    if (s.rows.experts != Rows::Experts::All && s.rows.experts != Rows::Experts::Local) {
      digits.neighbours.insert(s.rows.routing);
    }
  };
  for (const Block& block : program.blocks) {
    for (const Operation& op : block.operations) {
      for (const Slice& s : op.reads) look(s);
      for (const Slice& s : op.writes) look(s);
    }
  }
  return digits;
}

/// What determines how many rows a rank has, by the digits.
std::vector<std::int64_t> kind_of(const Program& program, const RankDigits& digits, RankId rank) {
  std::vector<std::int64_t> kind;
  for (std::size_t t = 0; t < program.routings.size(); ++t) {
    const RoutingTable& table = program.routings[t];
    if (digits.neighbours.contains(RoutingId(t))) kind.push_back(program.group(table.holders).position(rank));
    const ExpertRange held = local_experts(program, RoutingId(t), rank);
    kind.push_back(held.size());
    for (std::int64_t e = held.first; e < held.last && !table.counts.is_uniform(); ++e)
      kind.push_back(table.counts.at(rank, ExpertId(static_cast<std::int32_t>(e))));
  }
  for (const GroupId g : digits.shares) kind.push_back(program.group(g).position(rank));
  return kind;
}

/// The number of ranks after which kinds repeat.
std::int64_t period_of_kinds(const Program& program, const RankDigits& digits) {
  std::int64_t period = 1;
  const auto add = [&](const GroupFamily& family) { period = std::lcm(period, family.stride * family.size); };
  for (const RoutingTable& table : program.routings) add(program.group(table.holders));
  for (const GroupId g : digits.shares) add(program.group(g));
  return period;
}

/// Numbers of the kinds of the first ranks, in the order in which kinds occur; they repeat after these ranks. None if
/// sources have different counts, or experts are placed.
std::optional<std::vector<std::int32_t>> kinds_in_period(const Program& program) {
  if (!std::all_of(program.routings.begin(), program.routings.end(), has_equal_sources)) return std::nullopt;
  const RankDigits digits = rank_digits(program);
  const bool are_even = std::all_of(program.routings.begin(), program.routings.end(),
                                    [&](const RoutingTable& t) { return even_holders(program, t); });
  if (are_even && digits.shares.empty() && digits.neighbours.empty()) return std::vector<std::int32_t>{0};
  std::map<std::vector<std::int64_t>, std::int32_t> numbers;
  std::vector<std::int32_t> kinds;
  const std::int64_t ranks = std::min(program.ranks_per_stage(), period_of_kinds(program, digits));
  for (std::int64_t r = 0; r < ranks; ++r) {
    const auto next = static_cast<std::int32_t>(numbers.size());
    const RankId rank(static_cast<std::int32_t>(r));
    kinds.push_back(numbers.try_emplace(kind_of(program, digits, rank), next).first->second);
  }
  return kinds;
}

}  // namespace

bool even_rows(const Program& program, const Rows& rows) {
  return even_experts(program, rows) && uneven_groups(program, rows).empty();
}

std::vector<RankId> ranks_that_differ(const Program& program) {
  const std::optional<std::vector<std::int32_t>> kinds = kinds_in_period(program);
  std::vector<RankId> ranks;
  const std::size_t looked_at = kinds ? kinds->size() : static_cast<std::size_t>(program.ranks_per_stage());
  for (std::size_t r = 0; r < looked_at; ++r) {
    if (!kinds || (*kinds)[r] == std::ssize(ranks)) ranks.emplace_back(r);
  }
  return ranks;
}

std::vector<std::int32_t> kinds_of_ranks(const Program& program) {
  std::vector<std::int32_t> out;
  const std::optional<std::vector<std::int32_t>> kinds = kinds_in_period(program);
  for (std::int64_t r = 0; kinds && r < program.ranks_per_stage(); ++r)
    out.push_back((*kinds)[static_cast<std::size_t>(r) % kinds->size()]);
  return out;
}

std::optional<SymmetryQuery> symmetry_query(const Program& program) {
  if (program.stages.size() > 1) return std::nullopt;
  Query query(program);
  for (const RoutingTable& table : program.routings) {
    if (!query.note(table)) return std::nullopt;
  }
  for (const Block& block : program.blocks) {
    for (const Operation& op : block.operations) {
      if (!query.note(op)) return std::nullopt;
    }
  }
  return std::move(query).finish();
}

bool runs_in_rings(const Communication& c) {
  return c.pattern == Pattern::Ring &&
         (c.collective == Collective::AllGather || c.collective == Collective::ReduceScatter ||
          c.collective == Collective::AllReduce);
}

const SymmetricView::OrbitRoute& route_of_flow(const SymmetricView& view, const Program& program,
                                               const Operation& operation, RankId from, RankId to) {
  const Communication& c = *operation.communication();
  if (runs_in_rings(c)) {
    const GroupFamily& family = program.group(c.group);
    const std::int64_t per_node = members_per_node(program, family);
    if (const auto it = view.rings.find({family.size, family.stride, per_node}); it != view.rings.end()) {
      const SymmetricView::RingRoutes& edges = it->second[view.number_of(from)];
      const bool is_along = family.position(to) == ring_edges(family.position(from), family.size, per_node).along;
      return is_along ? edges.along : edges.across;
    }
  }
  return view.route(view.route_between(from, to));
}

const SymmetricView* representatives_view(const Program& program, const Cluster& cluster) {
  if (program.world_size != cluster.world_size() || program.world_size == 1) return nullptr;
  const auto query = symmetry_query(program);
  return query ? symmetric_view(cluster, *query) : nullptr;
}

const SymmetricView* equal_ranks_view(const Program& program, const Cluster& cluster) {
  const SymmetricView* view = representatives_view(program, cluster);
  return view && view->representatives == 1 ? view : nullptr;
}

}  // namespace moeplan
