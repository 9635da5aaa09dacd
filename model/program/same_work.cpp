#include "model/program/same_work.hpp"

#include <algorithm>
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

}  // namespace moeplan
