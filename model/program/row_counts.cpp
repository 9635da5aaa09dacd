#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "model/base/whole_numbers.hpp"
#include "model/program/resolve.hpp"
#include "model/program/row_sets.hpp"

namespace moeplan {

namespace {

/// The rows of some consecutive experts on one rank; as many as a cache line holds are counted together.
using Cells = std::array<std::int64_t, 8>;

/// Calls `visit` with the first member of every group of a family whose groups divide the ranks.
template <class Visit>
void for_each_group(const GroupFamily& family, std::size_t ranks, Visit visit) {
  const auto stride = static_cast<std::size_t>(family.stride), span = stride * static_cast<std::size_t>(family.size);
  for (std::size_t begin = 0; begin < ranks; begin += span) {
    for (std::size_t base = begin; base < begin + stride; ++base) visit(base);
  }
}

/// By rank, the sum over the members of a Union, added up once for each block of members.
void unite(const GroupFamily& family, const RowStep& step, std::vector<Cells>& ranks) {
  const auto stride = static_cast<std::size_t>(family.stride);
  const std::int64_t members = family.size / step.count;
  std::vector<Cells> blocks(static_cast<std::size_t>(step.count));
  for_each_group(family, ranks.size(), [&](std::size_t base) {
    for (std::int64_t block = 0; block < step.count; ++block) {
      Cells& sum = blocks[static_cast<std::size_t>(block)] = {};
      for (std::int64_t p = block * members; p < (block + 1) * members; ++p) {
        const Cells& of_member = ranks[base + static_cast<std::size_t>(p) * stride];
        for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += of_member[k];
      }
    }
    for (std::int64_t p = 0; p < family.size; ++p) {
      const std::int64_t block = (p / members - step.index + step.count) % step.count;
      ranks[base + static_cast<std::size_t>(p) * stride] = blocks[static_cast<std::size_t>(block)];
    }
  });
}

/// part() of each number.
void take_part(std::int64_t index, std::int64_t count, Cells& cells) {
  if (const auto n = static_cast<std::uint64_t>(count); std::has_single_bit(n)) {  // divides by a shift
    const int bits = std::countr_zero(n);
    for (std::int64_t& rows : cells) rows = (rows * (index + 1) >> bits) - (rows * index >> bits);
    return;
  }
  for (std::int64_t& rows : cells) rows = part(rows, index, count);
}

/// Replaces the rows along the rest of a path, by rank, by those along the path that begins with `step`.
void take_step(const GroupFamily& family, const RowStep& step, std::vector<Cells>& ranks) {
  const auto for_each_member = [&](auto take) {  // with its position in the group
    for_each_group(family, ranks.size(), [&](std::size_t base) {
      for (std::int64_t p = 0; p < family.size; ++p) take(p, ranks[base + static_cast<std::size_t>(p * family.stride)]);
    });
  };
  switch (step.kind) {
    case RowStep::Kind::Chunk:
      for (Cells& cells : ranks) {
        for (std::int64_t& rows : cells) rows = chunk_rows(rows, step);
      }
      break;
    case RowStep::Kind::Copies:
      for (Cells& cells : ranks) {
        for (std::int64_t& rows : cells) rows *= family.size;
      }
      break;
    case RowStep::Kind::Leader:
      for_each_member([](std::int64_t position, Cells& cells) {
        if (position != 0) cells = {};
      });
      break;
    case RowStep::Kind::Share:
      for_each_member([&](std::int64_t position, Cells& cells) { take_part(position, family.size, cells); });
      break;
    case RowStep::Kind::Union: unite(family, step, ranks); break;
  }
}

/// Whether rows are those of single sources and experts, which differ, and no group leaves the stage.
bool can_step_together(const Program& program, const Rows& rows) {
  if (rows.kind != Rows::Kind::Routed || rows.distinct) return false;
  if (program.routings[rows.routing.index()].counts.same_for_all_sources()) return false;
  return std::all_of(rows.path.begin(), rows.path.end(), [&](const RowStep& step) {
    const GroupFamily& family = program.group(step.group);
    return program.ranks_per_stage() % (family.size * family.stride) == 0;
  });
}

/// Whether the rows along a path are the sum of those of all sources that it reaches: no step rounds.
bool adds_up(const Program& program, const Rows& rows) {
  return std::all_of(rows.path.begin(), rows.path.end(), [&](const RowStep& step) {
    return step.kind == RowStep::Kind::Union ||
           (step.kind == RowStep::Kind::Share && program.group(step.group).size == 1);
  });
}

/// The rows of these experts of neighbouring sources.
std::int64_t rows_of(const RoutingCounts& counts, RankId first, std::int64_t sources, const ExpertSet& experts) {
  const RankId source(static_cast<std::int32_t>(first.value() % counts.sources()));
  std::int64_t sum = 0;
  for (const ExpertRange& range : experts)
    sum += counts.sum(source, sources, ExpertId(static_cast<std::int32_t>(range.first)), range.size());
  return sum;
}

/// The sum of the rows of these experts over all sources that the path, which adds up, reaches from `rank`.
std::int64_t rows_along(const Program& program, const RoutingCounts& counts, std::span<const RowStep> path, RankId rank,
                        const ExpertSet& experts) {
  if (path.empty()) return rows_of(counts, rank, 1, experts);
  const RowStep& step = path.front();
  const GroupFamily& family = program.group(step.group);
  if (family.size == 1) return rows_along(program, counts, path.subspan(1), rank, experts);
  const std::int64_t members = family.size / step.count;
  const std::int64_t block = (family.position(rank) / members - step.index + step.count) % step.count;
  if (path.size() == 1 && family.stride == 1)
    return rows_of(counts, family.member(rank, block * members), members, experts);
  std::int64_t sum = 0;
  for (std::int64_t p = block * members; p < (block + 1) * members; ++p)
    sum += rows_along(program, counts, path.subspan(1), family.member(rank, p), experts);
  return sum;
}

}  // namespace

std::vector<std::int64_t> row_counts(const Program& program, const Rows& rows) {
  const auto ranks = static_cast<std::size_t>(program.ranks_per_stage());
  std::vector<std::int64_t> out(ranks, 0);
  if (!can_step_together(program, rows)) {
    for (std::size_t r = 0; r < ranks; ++r) out[r] = row_count(program, rows, RankId(r));
    return out;
  }
  const RoutingCounts& counts = program.routings[rows.routing.index()].counts;
  const auto sources = static_cast<std::size_t>(counts.sources());
  std::vector<ExpertSet> experts;
  experts.reserve(ranks);
  for (std::size_t r = 0; r < ranks; ++r) experts.push_back(experts_of(program, rows, RankId(r)));
  std::vector<Cells> cells(ranks);
  const auto take_path = [&] {
    for (auto step = rows.path.rbegin(); step != rows.path.rend(); ++step)
      take_step(program.group(step->group), *step, cells);
  };
  if (adds_up(program, rows) && rows.experts == Rows::Experts::All) {
    for (std::size_t r = 0; r < ranks; ++r) cells[r][0] = rows_of(counts, RankId(r), 1, experts[r]);
    take_path();
    for (std::size_t r = 0; r < ranks; ++r) out[r] = cells[r][0];
    return out;
  }
  if (adds_up(program, rows) && rows.experts == Rows::Experts::Local) {
    for (std::size_t r = 0; r < ranks; ++r) out[r] = rows_along(program, counts, rows.path, RankId(r), experts[r]);
    return out;
  }
  const auto columns = static_cast<std::int64_t>(Cells{}.size());
  for (std::int64_t first = 0; first < counts.experts(); first += columns) {
    const std::int64_t last = std::min(first + columns, counts.experts());
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::int64_t e = first; e < last; ++e)
        cells[r][static_cast<std::size_t>(e - first)] =
            counts.at(RankId(r % sources), ExpertId(static_cast<std::int32_t>(e)));
    }
    take_path();
    for (std::size_t r = 0; r < ranks; ++r) {
      for (const ExpertRange& range : experts[r]) {
        for (std::int64_t e = std::max(first, range.first); e < std::min(last, range.last); ++e)
          out[r] += cells[r][static_cast<std::size_t>(e - first)];
      }
    }
  }
  return out;
}

}  // namespace moeplan
