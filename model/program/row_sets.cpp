#include "model/program/row_sets.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "model/base/whole_numbers.hpp"

namespace moeplan {

namespace {

/// The positions of the members whose rows a Union has, from the first to the one past the last.
std::pair<std::int64_t, std::int64_t> united(const GroupFamily& family, const RowStep& step, RankId rank) {
  const std::int64_t members = family.size / step.count;
  const std::int64_t block = (family.position(rank) / members - step.index + step.count) % step.count;
  return {block * members, (block + 1) * members};
}

/// Calls `visit(member, times)` for the members of a Union whose rows along `rest` are added up: for each or, if all
/// sources are equal, for one of those at equal positions in the groups of `rest`, with their number.
template <class Visit>
void for_members(const Program& program, bool is_uniform, const RowStep& step, std::span<const RowStep> rest,
                 RankId rank, const Visit& visit) {
  const GroupFamily& family = program.group(step.group);
  const auto [first, last] = united(family, step, rank);
  std::int64_t different = last - first;
  if (is_uniform && !is_positional(rest)) {
    different = 1;
  } else if (is_uniform) {
    std::int64_t repeat = 1;  // positions in all groups are equal for ranks that are equal modulo this
    for (const RowStep& s : rest) {
      const GroupFamily& group = program.group(s.group);
      if (s.kind != RowStep::Kind::Chunk) repeat = std::lcm(repeat, group.stride * group.size);
    }
    different = std::min(different, repeat / std::gcd(repeat, family.stride));
  }
  for (std::int64_t i = 0; i < different; ++i)
    visit(family.member(rank, first + i), (last - first - i + different - 1) / different);
}

/// Number of rows along a path, `leaf(rank)` at each source. `is_uniform`: equal at all sources.
template <class Leaf>
std::int64_t path_rows(const Program& program, bool is_uniform, std::span<const RowStep> path, RankId rank,
                       const Leaf& leaf) {
  if (path.empty()) return leaf(rank);
  const RowStep& step = path.front();
  const auto rest = path.subspan(1);
  const GroupFamily& family = program.group(step.group);
  switch (step.kind) {
    case RowStep::Kind::Chunk: return chunk_rows(path_rows(program, is_uniform, rest, rank, leaf), step);
    case RowStep::Kind::Copies: return family.size * path_rows(program, is_uniform, rest, rank, leaf);
    case RowStep::Kind::Leader:
      return family.position(rank) == 0 ? path_rows(program, is_uniform, rest, rank, leaf) : 0;
    case RowStep::Kind::Share:
      return part(path_rows(program, is_uniform, rest, rank, leaf), family.position(rank), family.size);
    case RowStep::Kind::Union: {
      std::int64_t sum = 0;
      for_members(program, is_uniform, step, rest, rank, [&](RankId member, std::int64_t times) {
        sum += times * path_rows(program, is_uniform, rest, member, leaf);
      });
      return sum;
    }
  }
  return 0;
}

/// Adds the rows along a path of what `add_counts(first, sources, rows)` adds for neighbouring sources.
template <class AddCounts>
void add_rows(const Program& program, bool is_uniform, std::span<const RowStep> path, RankId rank,
              const AddCounts& add_counts, std::vector<std::int64_t>& out) {
  if (path.empty()) return add_counts(rank, 1, out);
  const RowStep& step = path.front();
  const auto rest = path.subspan(1);
  const GroupFamily& family = program.group(step.group);
  if (step.kind == RowStep::Kind::Union && !is_uniform && rest.empty() && family.stride == 1) {
    const auto [first, last] = united(family, step, rank);
    return add_counts(family.member(rank, first), last - first, out);
  }
  const auto add = [&](RankId member, auto of_rest) {
    std::vector<std::int64_t> rows(out.size(), 0);
    add_rows(program, is_uniform, rest, member, add_counts, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) out[i] += of_rest(rows[i]);
  };
  switch (step.kind) {
    case RowStep::Kind::Chunk: return add(rank, [&](std::int64_t rows) { return chunk_rows(rows, step); });
    case RowStep::Kind::Copies: return add(rank, [&](std::int64_t rows) { return family.size * rows; });
    case RowStep::Kind::Share:
      return add(rank, [&](std::int64_t rows) { return part(rows, family.position(rank), family.size); });
    case RowStep::Kind::Leader:
      if (family.position(rank) == 0) add_rows(program, is_uniform, rest, rank, add_counts, out);
      return;
    case RowStep::Kind::Union:
      return for_members(program, is_uniform, step, rest, rank, [&](RankId member, std::int64_t times) {
        if (times == 1) return add_rows(program, is_uniform, rest, member, add_counts, out);
        add(member, [&](std::int64_t rows) { return times * rows; });
      });
  }
}

/// The rows of each of the experts if all sources are equal: a function of the expert's count, evaluated once for each.
std::vector<std::int64_t> rows_of_equal_sources(const Program& program, const RoutingCounts& counts,
                                                std::span<const RowStep> path, RankId rank, const ExpertSet& experts) {
  std::vector<std::int64_t> out, different;  // counts, `different` sorted
  for (const ExpertRange& range : experts) {
    for (std::int64_t e = range.first; e < range.last; ++e) {
      out.push_back(counts.at(RankId(0), ExpertId(static_cast<std::int32_t>(e))));
      const auto at = std::lower_bound(different.begin(), different.end(), out.back());
      if (at == different.end() || *at != out.back()) different.insert(at, out.back());
    }
  }
  std::vector<std::int64_t> rows(different.size(), 0);
  const auto add_counts = [&](RankId, std::int64_t, std::vector<std::int64_t>& to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += different[i];
  };
  add_rows(program, true, path, rank, add_counts, rows);
  for (std::int64_t& n : out) {
    const auto at = std::lower_bound(different.begin(), different.end(), n) - different.begin();
    n = rows[static_cast<std::size_t>(at)];
  }
  return out;
}

/// The sum of rows_of_equal_sources() if there are at most two different counts, as where a load is balanced but does
/// not divide.
std::optional<std::int64_t> rows_of_two_counts(const Program& program, const RoutingCounts& counts,
                                               std::span<const RowStep> path, RankId rank, const ExpertSet& experts) {
  std::array<std::int64_t, 2> different{}, times{};
  std::size_t n = 0;
  for (const ExpertRange& range : experts) {
    for (std::int64_t e = range.first; e < range.last; ++e) {
      const std::int64_t count = counts.at(RankId(0), ExpertId(static_cast<std::int32_t>(e)));
      std::size_t i = 0;
      while (i < n && different[i] != count) ++i;
      if (i == different.size()) return std::nullopt;
      if (i == n) different[n++] = count;
      ++times[i];
    }
  }
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < n; ++i)
    sum += times[i] * path_rows(program, true, path, rank, [&](RankId) { return different[i]; });
  return sum;
}

/// Probability that all of k distinct draws from `all` items are among `others` of them.
double chance_of_others(double all, double others, std::int64_t k) {
  double chance = 1;
  for (std::int64_t i = 0; i < k; ++i) {
    chance *= std::max(0.0, others - static_cast<double>(i)) / (all - static_cast<double>(i));
  }
  return chance;
}

/// A source's selections of a group of experts, and the part of them for a given set of experts.
struct GroupLoad {
  double all = 0;
  double set = 0;
};

/// The loads by group. A uniform routing is equal for all ranks: the set is assumed to begin at a group boundary.
std::vector<GroupLoad> group_loads(const RoutingTable& table, const ExpertSet& experts, RankId source) {
  const std::int64_t size = table.num_experts() / table.groups.count;
  const std::int64_t first = table.counts.is_uniform() && table.slots.empty() ? experts.front().first : 0;
  std::vector<GroupLoad> loads(static_cast<std::size_t>(table.groups.count));
  const auto group = [&](std::int64_t slot) -> GroupLoad* {
    if (table.slots.empty()) {
      const std::int64_t from_first = (slot - first + table.num_experts()) % table.num_experts();
      return &loads[static_cast<std::size_t>(from_first / size)];
    }
    const std::optional<ExpertSlot>& s = table.slots[static_cast<std::size_t>(slot)];
    return s ? &loads[s->expert.index() / static_cast<std::size_t>(size)] : nullptr;
  };
  const auto count = [&](std::int64_t slot) {
    return static_cast<double>(table.counts.at(source, ExpertId(static_cast<std::int32_t>(slot))));
  };
  for (std::int64_t s = 0; s < table.counts.experts(); ++s) {
    if (GroupLoad* load = group(s)) load->all += count(s);
  }
  for (const ExpertRange& range : experts) {
    for (std::int64_t s = range.first; s < range.last; ++s) {
      if (GroupLoad* load = group(s)) load->set += count(s);
    }
  }
  return loads;
}

/// Probability that a token of a group-limited gate selects no expert of a set. Its `per_token` groups are chosen with
/// a probability proportional to the product of these groups' selections (uniform for equal loads); within them it
/// draws top_k distinct experts, each group's in proportion to the set's fraction of the group's selections (assumed,
/// as without groups). None if fewer groups have selections at all.
std::optional<double> chance_of_missing(const RoutingTable& table, const std::vector<GroupLoad>& loads) {
  constexpr double kParts = 64;  // parts per expert: limits the number of different sums
  const double size = static_cast<double>(table.num_experts()) / static_cast<double>(table.groups.count);
  const auto most = static_cast<std::size_t>(table.groups.per_token);
  double total = 0;
  for (const GroupLoad& g : loads) total += g.all / static_cast<double>(loads.size());
  // By the set's experts in the groups chosen so far, and the number of these groups.
  std::map<std::int64_t, std::vector<double>> weights{{0, std::vector<double>(most + 1, 0.0)}};
  weights[0][0] = 1;
  for (const GroupLoad& g : loads) {
    if (g.all <= 0) continue;
    const std::int64_t in_set = std::llround(kParts * size * g.set / g.all);
    auto next = weights;
    for (const auto& [sum, by_groups] : weights) {
      std::vector<double>& with = next.try_emplace(sum + in_set, most + 1, 0.0).first->second;
      for (std::size_t n = 0; n < most; ++n) with[n + 1] += by_groups[n] * g.all / total;
    }
    weights = std::move(next);
  }
  double all = 0, missed = 0;
  const double reached = size * static_cast<double>(most);
  for (const auto& [sum, by_groups] : weights) {
    all += by_groups[most];
    missed += by_groups[most] * chance_of_others(reached, reached - static_cast<double>(sum) / kParts, table.top_k);
  }
  if (all <= 0) return std::nullopt;
  return missed / all;
}

/// Number of a source's tokens that select any of the experts. Selections are counts by expert, not sets by token, so
/// the experts' fraction q of the source's selections is taken as a fraction q of the E experts, of which top_k
/// distinct ones are drawn: 1 - C(E - q E, k) / C(E, k) (MODELS section 2, there with q = 1 / G). A group-limited gate
/// draws from fewer.
std::int64_t distinct_tokens(const RoutingTable& table, const ExpertSet& experts, RankId source) {
  const RoutingCounts& counts = table.counts;
  const auto all = static_cast<double>(table.num_experts());
  double selections = 0, total = 0;
  if (counts.is_uniform()) {
    const auto each = static_cast<double>(counts.at(source, ExpertId(0)));
    selections = each * static_cast<double>(size_of(experts));
    total = each * static_cast<double>(counts.experts());
  } else {
    for (std::int64_t e = 0; e < counts.experts(); ++e)
      total += static_cast<double>(counts.at(source, ExpertId(static_cast<std::int32_t>(e))));
    for (const ExpertRange& range : experts) {
      for (std::int64_t e = range.first; e < range.last; ++e)
        selections += static_cast<double>(counts.at(source, ExpertId(static_cast<std::int32_t>(e))));
    }
  }
  if (total == 0) return 0;
  const double tokens = total / static_cast<double>(table.top_k);
  if (table.groups.per_token < table.groups.count && selections > 0) {
    if (const auto missed = chance_of_missing(table, group_loads(table, experts, source))) {
      // Regardless of how often its groups are chosen: a token selects an expert once, and top_k experts in all.
      const double fewest = selections / static_cast<double>(table.top_k);
      return std::llround(std::clamp(tokens * (1 - *missed), fewest, std::min(tokens, selections)));
    }
  }
  return std::llround(tokens * (1 - chance_of_others(all, all * (1 - selections / total), table.top_k)));
}

/// Whether a slot is a home, or a copy.
bool is_slot_of(const RoutingTable& table, std::int64_t slot, bool home) {
  if (table.slots.empty()) return home;
  const std::optional<ExpertSlot>& s = table.slots[static_cast<std::size_t>(slot)];
  return s && s->is_home == home;
}

}  // namespace

ExpertSet intersection(const ExpertSet& a, const ExpertSet& b) {
  ExpertSet out;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    const ExpertRange both{std::max(x->first, y->first), std::min(x->last, y->last)};
    if (both.size() > 0) out.push_back(both);
    x->last < y->last ? ++x : ++y;
  }
  return out;
}

std::int64_t size_of(const ExpertSet& experts) {
  std::int64_t size = 0;
  for (const ExpertRange& range : experts) size += range.size();
  return size;
}

std::int64_t sources_reached(const Program& program, std::span<const RowStep> path) {
  std::int64_t sources = 1;
  for (const RowStep& step : path) {
    if (step.kind == RowStep::Kind::Union) sources *= program.group(step.group).size / step.count;
  }
  return sources;
}

bool is_positional(std::span<const RowStep> path) {
  return std::any_of(path.begin(), path.end(), [](const RowStep& s) {
    return s.kind == RowStep::Kind::Share || s.kind == RowStep::Kind::Leader;
  });
}

bool equal_on_all_ranks(const Program& program, const Rows& rows) {
  switch (rows.kind) {
    case Rows::Kind::Fixed: return true;
    case Rows::Kind::Tokens: return !is_positional(rows.path);
    case Rows::Kind::PerExpert: return false;
    case Rows::Kind::Routed: break;
  }
  const bool has_equal_sources = program.routings[rows.routing.index()].counts.same_for_all_sources();
  return has_equal_sources && rows.experts == Rows::Experts::All && !is_positional(rows.path);
}

std::int64_t chunk_rows(std::int64_t rows, const RowStep& chunk) {
  return rows * (chunk.index + chunk.width) / chunk.count - rows * chunk.index / chunk.count;
}

ExpertSet experts_of(const Program& program, const Rows& rows, RankId rank) {
  const RoutingTable& table = program.routings[rows.routing.index()];
  const GroupFamily& family = program.group(table.holders);
  switch (rows.experts) {
    case Rows::Experts::All: break;
    case Rows::Experts::Local: return {local_experts(program, rows.routing, rank)};
    case Rows::Experts::Paired:
      return {local_experts(program, rows.routing, family.member(rank, family.position(rank) ^ rows.behind))};
    case Rows::Experts::Behind: return {local_experts(program, rows.routing, family.shifted(rank, -rows.behind))};
    case Rows::Experts::Homes:
    case Rows::Experts::Copies: {
      const ExpertRange held = local_experts(program, rows.routing, rank);
      ExpertSet out;
      for (std::int64_t s = held.first; s < held.last; ++s) {
        if (!is_slot_of(table, s, rows.experts == Rows::Experts::Homes)) continue;
        if (!out.empty() && out.back().last == s) {
          ++out.back().last;
        } else {
          out.push_back({s, s + 1});
        }
      }
      return out;
    }
    case Rows::Experts::Held: {
      const GroupFamily& holders = program.group(rows.holders);
      const RankId member = rows.behind == 0 ? rank : family.shifted(rank, -rows.behind * holders.size);
      ExpertSet sorted;
      for (std::int64_t p = 0; p < holders.size; ++p) {
        const ExpertRange range = local_experts(program, rows.routing, holders.member(member, p));
        if (range.size() > 0) sorted.push_back(range);
      }
      std::sort(sorted.begin(), sorted.end(),
                [](const ExpertRange& x, const ExpertRange& y) { return x.first < y.first; });
      ExpertSet out;
      for (const ExpertRange& range : sorted) {
        if (!out.empty() && range.first <= out.back().last) {
          out.back().last = std::max(out.back().last, range.last);
        } else {
          out.push_back(range);
        }
      }
      return out;
    }
  }
  return {{0, table.counts.experts()}};
}

std::int64_t weights_of(const Program& program, const Rows& rows, RankId rank) {
  const RoutingTable& table = program.routings[rows.routing.index()];
  const ExpertSet experts = experts_of(program, rows, rank);
  std::int64_t weights = size_of(experts);
  for (const ExpertRange& range : experts) {
    for (std::int64_t s = range.first; s < range.last && !table.slots.empty(); ++s)
      weights -= table.slots[static_cast<std::size_t>(s)] ? 0 : 1;
  }
  return weights;
}

std::int64_t rows_over(const Program& program, const Rows& rows, std::span<const RowStep> path, RankId rank,
                       const ExpertSet& experts) {
  const RoutingTable& table = program.routings[rows.routing.index()];
  if (experts.empty()) return 0;
  const bool is_uniform = table.counts.same_for_all_sources();
  const auto source = [&](RankId r) { return RankId(static_cast<std::int32_t>(r.value() % table.counts.sources())); };
  if (rows.distinct) {
    return path_rows(program, is_uniform, path, rank,
                     [&](RankId r) { return distinct_tokens(table, experts, source(r)); });
  }
  if (table.counts.is_uniform()) {
    const RankId any(0);
    const auto each = [&](RankId) { return table.counts.at(any, ExpertId(0)); };
    return size_of(experts) * path_rows(program, is_uniform, path, rank, each);
  }
  if (is_uniform) {
    if (const auto sum = rows_of_two_counts(program, table.counts, path, rank, experts)) return *sum;
  }
  const std::vector<std::int64_t> each = rows_of_each(program, rows, path, rank, experts);
  return std::accumulate(each.begin(), each.end(), std::int64_t{0});
}

std::vector<std::int64_t> rows_of_each(const Program& program, const Rows& rows, std::span<const RowStep> path,
                                       RankId rank, const ExpertSet& experts) {
  const RoutingCounts& counts = program.routings[rows.routing.index()].counts;
  if (counts.same_for_all_sources()) return rows_of_equal_sources(program, counts, path, rank, experts);
  std::vector<std::int64_t> out(static_cast<std::size_t>(size_of(experts)), 0);
  const auto add_counts = [&](RankId first, std::int64_t sources, std::vector<std::int64_t>& to) {
    const RankId source(static_cast<std::int32_t>(first.value() % counts.sources()));
    assert(source.value() + sources <= counts.sources() && "a group does not leave its stage");
    std::size_t i = 0;
    for (const ExpertRange& range : experts) {
      for (std::int64_t e = range.first; e < range.last; ++e)
        to[i++] += counts.sum(source, sources, ExpertId(static_cast<std::int32_t>(e)), 1);
    }
  };
  add_rows(program, false, path, rank, add_counts, out);
  return out;
}

std::int64_t token_rows(const Program& program, const Rows& rows, RankId rank) {
  return path_rows(program, /*is_uniform=*/true, rows.path, rank, [&](RankId) { return rows.each; });
}

bool leads(const Program& program, std::span<const RowStep> path, RankId rank) {
  return std::all_of(path.begin(), path.end(), [&](const RowStep& s) {
    return s.kind != RowStep::Kind::Leader || program.group(s.group).position(rank) == 0;
  });
}

}  // namespace moeplan
