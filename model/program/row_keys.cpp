#include "model/program/row_keys.hpp"

#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>

#include "model/base/to_index.hpp"
#include "model/program/row_sets.hpp"

namespace moeplan {

namespace {

/// A key, and whether a Chunk step has excluded it.
struct Counted {
  RowKey key;
  bool is_left_out = false;
};
using Keys = std::vector<Counted>;

/// Beginning of part `index` of `count` of the keys from `first` on that are not excluded.
Keys::iterator begin_of(Keys& keys, std::ptrdiff_t first, std::int64_t index, std::int64_t count) {
  const auto begin = keys.begin() + first;
  const std::int64_t size = std::count_if(begin, keys.end(), [](const Counted& c) { return !c.is_left_out; });
  std::int64_t before = size * index / count;
  return std::find_if(begin, keys.end(), [&](const Counted& c) { return !c.is_left_out && before-- == 0; });
}

/// Of the keys from `first` on, parts index .. index + width - 1 of `count`; the others are kept as excluded, or
/// removed.
void cut(Keys& keys, std::ptrdiff_t first, std::int64_t index, std::int64_t width, std::int64_t count,
         bool others_stay) {
  const auto begin = begin_of(keys, first, index, count), end = begin_of(keys, first, index + width, count);
  if (!others_stay) {
    keys.erase(end, keys.end());
    keys.erase(keys.begin() + first, begin);
    return;
  }
  for (auto it = keys.begin() + first; it != keys.end(); ++it) {
    if (it < begin || it >= end) it->is_left_out = true;
  }
}

/// Appends the keys along a path; `leaf(source, keys)` appends those at a source.
template <class Leaf>
void append_along(const Program& program, std::span<const RowStep> path, RankId rank, const Leaf& leaf, Keys& keys) {
  if (path.empty()) return leaf(rank, keys);
  const RowStep& step = path.front();
  const GroupFamily& family = program.group(step.group);
  const std::ptrdiff_t first = std::ssize(keys);
  const auto append_rest = [&](RankId of) { append_along(program, path.subspan(1), of, leaf, keys); };
  switch (step.kind) {
    case RowStep::Kind::Chunk: append_rest(rank); return cut(keys, first, step.index, step.width, step.count, true);
    case RowStep::Kind::Share: append_rest(rank); return cut(keys, first, family.position(rank), 1, family.size, false);
    case RowStep::Kind::Leader:
      if (family.position(rank) == 0) append_rest(rank);
      return;
    case RowStep::Kind::Copies: {
      append_rest(rank);
      const std::ptrdiff_t end = std::ssize(keys);
      for (std::int64_t c = 1; c < family.size; ++c) {
        for (std::ptrdiff_t i = first; i < end; ++i) {
          Counted row = keys[to_index(i)];
          row.key.copy = c;
          keys.push_back(row);
        }
      }
      return;
    }
    case RowStep::Kind::Union: {
      const std::int64_t members = family.size / step.count;
      const std::int64_t block = (family.position(rank) / members - step.index + step.count) % step.count;
      for (std::int64_t p = block * members; p < (block + 1) * members; ++p) append_rest(family.member(rank, p));
      return;
    }
  }
}

template <class Leaf>
Keys along(const Program& program, const Rows& rows, RankId rank, const Leaf& leaf) {
  Keys keys;
  append_along(program, rows.path, rank, leaf, keys);
  return keys;
}

std::optional<std::int64_t> expert_in(const RoutingTable& table, std::int64_t slot) {
  if (table.slots.empty()) return slot;
  const std::optional<ExpertSlot>& s = table.slots[static_cast<std::size_t>(slot)];
  return s ? std::optional<std::int64_t>(s->expert.value()) : std::nullopt;
}

/// The earlier slots of the expert in a slot that is not empty.
std::vector<ExpertId> slots_before(const RoutingTable& table, std::int64_t slot) {
  std::vector<ExpertId> out;
  for (std::int64_t s = 0; s < slot && !table.slots.empty(); ++s) {
    const std::optional<ExpertSlot>& earlier = table.slots[to_index(s)];
    if (earlier && earlier->expert == table.slots[to_index(slot)]->expert) out.emplace_back(to_index(s));
  }
  return out;
}

/// Every token of routed rows once (per occurrence of its source on the path); excluded if all its rows are.
class DistinctRows {
 public:
  DistinctRows(const Program& program, const Rows& rows, const TokenChoices& choices)
      : experts_(program.routings[rows.routing.index()].num_experts()), copy_(copy_of(rows)), choices_(choices) {}

  /// The rows of one expert.
  void add(const Keys& keys) {
    std::unordered_map<RowKey, std::int32_t, RowKeyHash> seen;
    for (const Counted& c : keys) {
      const std::int32_t occurrence = seen[c.key]++;
      const std::vector<std::int32_t>& tokens = tokens_of(c.key.source)[static_cast<std::size_t>(c.key.expert)];
      if (c.key.ordinal >= std::ssize(tokens)) continue;  // padding
      const RowKey key{
          .source = c.key.source, .ordinal = tokens[static_cast<std::size_t>(c.key.ordinal)], .copy = copy_};
      const auto it = is_left_out_.try_emplace({key, occurrence}, true).first;
      it->second = it->second && c.is_left_out;
    }
  }

  [[nodiscard]] Keys keys() const {
    Keys out;
    for (const auto& [slot, is_left_out] : is_left_out_) out.push_back({slot.key, is_left_out});
    return out;
  }

 private:
  const std::vector<std::vector<std::int32_t>>& tokens_of(std::int64_t source) {
    auto& of_source = tokens_[source];
    if (of_source.empty()) of_source = tokens_by_expert(choices_[static_cast<std::size_t>(source)], experts_);
    return of_source;
  }

  std::int64_t experts_;
  std::int64_t copy_;
  const TokenChoices& choices_;
  std::unordered_map<std::int64_t, std::vector<std::vector<std::int32_t>>> tokens_;  // by source and expert
  std::map<RowSlot, bool> is_left_out_;
};

Keys counted_keys(const Program& program, const Rows& rows, RankId rank, const TokenChoices& choices) {
  if (rows.kind == Rows::Kind::Fixed) {
    return along(program, rows, rank, [&](RankId, Keys& keys) {
      for (std::int64_t i = 0; i < rows.each; ++i) keys.push_back({{.ordinal = i}});
    });
  }
  if (rows.kind == Rows::Kind::Tokens) {
    return along(program, rows, rank, [&](RankId r, Keys& keys) {
      const std::int64_t source = r.value() % std::ssize(choices);
      for (std::int64_t t = 0; t < rows.each; ++t) keys.push_back({{.source = source, .ordinal = t}});
    });
  }
  Keys all;
  DistinctRows distinct(program, rows, choices);
  const RoutingTable& table = program.routings[rows.routing.index()];
  for (const ExpertRange& range : experts_of(program, rows, rank)) {
    for (std::int64_t slot = range.first; slot < range.last; ++slot) {
      const std::optional<std::int64_t> e = expert_in(table, slot);
      if (!e) continue;
      if (rows.kind == Rows::Kind::PerExpert) {
        for (std::int64_t i = 0; i < rows.each; ++i) all.push_back({{.expert = *e, .ordinal = i}});
        continue;
      }
      const std::vector<ExpertId> before = slots_before(table, slot);
      const auto of_source = [&](RankId r, Keys& keys) {
        const RankId source(static_cast<std::int32_t>(r.value() % table.counts.sources()));
        std::int64_t first = 0;
        for (const ExpertId earlier : before) first += table.counts.at(source, earlier);
        const std::int64_t count = table.counts.at(source, ExpertId(to_index(slot)));
        for (std::int64_t o = first; o < first + count; ++o)
          keys.push_back({{.expert = *e, .source = source.value(), .ordinal = o}});
      };
      if (rows.distinct) {
        distinct.add(along(program, rows, rank, of_source));
      } else {
        append_along(program, rows.path, rank, of_source, all);
      }
    }
  }
  return rows.distinct ? distinct.keys() : all;
}

}  // namespace

std::vector<std::int64_t> selections_by_expert(const RoutingTable& table, RankId source) {
  std::vector<std::int64_t> out(to_index(table.num_experts()), 0);
  for (std::size_t s = 0; s < to_index(table.counts.experts()); ++s) {
    if (table.slots.empty()) {
      out[s] = table.counts.at(source, ExpertId(s));
    } else if (table.slots[s]) {
      out[table.slots[s]->expert.index()] += table.counts.at(source, ExpertId(s));
    }
  }
  return out;
}

std::vector<RowSlot> row_slots(const Program& program, const Rows& rows, RankId rank, const TokenChoices& choices) {
  const Keys keys = counted_keys(program, rows, rank, choices);
  const auto not_ascending = [](const Counted& a, const Counted& b) { return a.key >= b.key; };
  const bool may_repeat = std::ranges::adjacent_find(keys, not_ascending) != keys.end();
  std::unordered_map<RowKey, std::int32_t, RowKeyHash> seen;
  std::vector<RowSlot> out;
  out.reserve(keys.size());
  for (const Counted& c : keys) {
    const std::int32_t occurrence = may_repeat ? seen[c.key]++ : 0;
    if (!c.is_left_out) out.push_back({c.key, occurrence});
  }
  return out;
}

std::vector<std::vector<std::int32_t>> tokens_by_expert(const std::vector<std::vector<std::int64_t>>& choices,
                                                        std::int64_t experts) {
  std::vector<std::vector<std::int32_t>> out(static_cast<std::size_t>(experts));
  for (std::size_t t = 0; t < choices.size(); ++t) {
    for (const std::int64_t e : choices[t]) out[static_cast<std::size_t>(e)].push_back(static_cast<std::int32_t>(t));
  }
  return out;
}

std::int64_t copy_of(const Rows& rows) {
  if (!rows.distinct) return 0;
  const auto chunk =
      std::find_if(rows.path.begin(), rows.path.end(), [](const RowStep& s) { return s.kind == RowStep::Kind::Chunk; });
  return chunk == rows.path.end() ? 0 : chunk->index;
}

}  // namespace moeplan
