#include "model/program/same_work.hpp"

#include <algorithm>
#include <bit>
#include <string_view>
#include <tuple>

#include "model/program/row_sets.hpp"

namespace moeplan {

namespace {

/// Number of Chunk steps at the end of a path, which are applied first.
std::size_t chunks_at_end(const std::vector<RowStep>& path) {
  const auto chunk = [](const RowStep& s) { return s.kind == RowStep::Kind::Chunk; };
  return static_cast<std::size_t>(std::find_if_not(path.rbegin(), path.rend(), chunk) - path.rbegin());
}

std::int64_t rows_after_chunks(const std::vector<RowStep>& path, std::size_t chunks, std::int64_t rows) {
  for (std::size_t i = 0; i < chunks; ++i) rows = chunk_rows(rows, path[path.size() - 1 - i]);
  return rows;
}

/// Whether the paths are equal except for chunks of `rows` rows that have equal sizes.
bool same_path(const std::vector<RowStep>& a, const std::vector<RowStep>& b, std::int64_t rows) {
  const std::size_t a_chunks = chunks_at_end(a), b_chunks = chunks_at_end(b);
  return std::equal(a.begin(), a.end() - static_cast<std::ptrdiff_t>(a_chunks), b.begin(),
                    b.end() - static_cast<std::ptrdiff_t>(b_chunks)) &&
         rows_after_chunks(a, a_chunks, rows) == rows_after_chunks(b, b_chunks, rows);
}

bool same_rows(const Program& program, const Rows& a, const Rows& b) {
  if (a == b) return true;
  if (a.kind != Rows::Kind::Routed || a.distinct || b.distinct) return false;
  const auto apart_from_path = [](const Rows& r) {
    return std::tie(r.kind, r.each, r.routing, r.experts, r.behind, r.holders, r.distinct);
  };
  if (apart_from_path(a) != apart_from_path(b)) return false;
  const RoutingCounts& counts = program.routings[a.routing.index()].counts;
  return counts.is_uniform() && same_path(a.path, b.path, counts.at(RankId(0), ExpertId(0)));
}

bool same_slices(const Program& program, const std::vector<Slice>& a, const std::vector<Slice>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Slice& s, const Slice& t) {
    const Buffer& of_s = program.buffer(s.buffer);
    const Buffer& of_t = program.buffer(t.buffer);
    return of_s.columns == of_t.columns && of_s.dtype == of_t.dtype && same_rows(program, s.rows, t.rows);
  });
}

}  // namespace

bool same_work(const Program& program, const Operation& a, const Operation& b) {
  return a.work == b.work && a.kernels == b.kernels && a.parts == b.parts && same_slices(program, a.reads, b.reads) &&
         same_slices(program, a.writes, b.writes);
}

namespace {

/// Hashes numbers one after another, by two multipliers (2^64 / golden ratio, and that of Knuth's MMIX).
class Hasher {
 public:
  template <class Number>
  void add(Number value) {
    const auto n = static_cast<std::uint64_t>(value);
    hash_[0] = (std::rotl(hash_[0], 5) ^ n) * 0x9E3779B97F4A7C15U;
    hash_[1] = (std::rotl(hash_[1], 29) ^ n) * 6364136223846793005U;
  }
  void add(const CommunicationHash& of_part) {
    for (const std::uint64_t half : of_part) add(half);
  }
  void add(const GroupFamily& group) {
    add(group.size);
    add(group.stride);
  }
  void add(std::string_view text) {
    add(text.size());
    for (const char c : text) add(c);
  }
  [[nodiscard]] CommunicationHash hash() const {
    CommunicationHash mixed = hash_;  // the last numbers reach all bits
    for (std::uint64_t& h : mixed) h = (h ^ (h >> 32U)) * 0xD6E8FEB86659FD93U;
    return mixed;
  }

 private:
  CommunicationHash hash_{1, 2};
};

bool is_hashed(const RoutingTable& table) { return table.counts.same_for_all_sources() && table.slots.empty(); }

CommunicationHash hash_of(const Program& program, const RoutingTable& table) {
  const auto& [counts, holders, top_k, slots, groups] = table;
  Hasher h;
  h.add(counts.sources());
  h.add(counts.experts());
  const std::int64_t different = counts.is_uniform() ? 1 : counts.experts();
  for (std::int64_t e = 0; e < different; ++e) h.add(counts.at(RankId(0), ExpertId(static_cast<std::int32_t>(e))));
  h.add(program.group(holders));
  h.add(top_k);
  h.add(groups.count);
  h.add(groups.per_token);
  return h.hash();
}

/// But for the routing's hash.
void add_rows(Hasher& h, const Program& program, const Rows& rows) {
  const auto& [kind, each, routing, experts, behind, holders, distinct, path] = rows;
  h.add(kind);
  h.add(each);
  h.add(experts);
  h.add(behind);
  if (experts == Rows::Experts::Held) h.add(program.group(holders));
  h.add(distinct);
  h.add(path.size());
  for (const auto& [step, group, index, count, width] : path) {
    h.add(step);
    if (step != RowStep::Kind::Chunk) h.add(program.group(group));
    h.add(index);
    h.add(count);
    h.add(width);
  }
}

void add_work(Hasher& h, const Program& program, const Communication& communication) {
  const auto& [collective, group, first, count, of, paired, messages, pattern, reduces, continues, kernels, relays] =
      communication;
  h.add(collective);
  h.add(program.group(group));
  h.add(first);
  h.add(count);
  h.add(of);
  h.add(paired);
  h.add(messages);
  h.add(pattern);
  h.add(reduces);
  h.add(continues);
  h.add(kernels.has_value());
  if (kernels) {
    const auto& [name, combines, sms, accompanies] = *kernels;
    h.add(std::string_view(name));
    h.add(combines);
    h.add(sms);
    h.add(accompanies);
  }
  h.add(relays.has_value());
  if (relays) h.add(program.group(*relays));
}

}  // namespace

std::optional<CommunicationHash> CommunicationHashes::of(const Operation& communication) {
  Hasher h;
  h.add(program_.world_size);
  h.add(program_.ranks_per_node);
  add_work(h, program_, *communication.communication());
  for (const std::vector<Slice>* slices : {&communication.reads, &communication.writes}) {
    h.add(slices->size());
    for (const auto& [id, rows] : *slices) {
      const Buffer& buffer = program_.buffer(id);
      h.add(buffer.columns);
      h.add(buffer.dtype);
      add_rows(h, program_, rows);
      if (rows.kind != Rows::Kind::Routed && rows.kind != Rows::Kind::PerExpert) continue;
      const RoutingTable& table = program_.routings[rows.routing.index()];
      if (!is_hashed(table)) return std::nullopt;
      std::optional<CommunicationHash>& of_table = routings_[rows.routing.index()];
      if (!of_table) of_table = hash_of(program_, table);
      h.add(*of_table);
    }
  }
  return h.hash();
}

}  // namespace moeplan
