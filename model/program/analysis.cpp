#include "model/program/analysis.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <tuple>

namespace moeplan {

namespace {

constexpr std::size_t kClasses = kOpClassNames.size();
constexpr std::size_t kStreams = kStreamNames.size();
constexpr double kSecondsPerPicosecond = 1e-12;

const Operation& operation_of(const Program& program, const TimelineSpan& span) {
  return program.blocks[span.block.index()].operations[static_cast<std::size_t>(span.operation)];
}

double duration(const TimelineSpan& span) { return static_cast<double>((span.end - span.start).picoseconds()); }

/// A span's start or end.
struct Edge {
  SimTime time;
  bool is_start;
  const Operation* operation;
};

/// Sums in picoseconds, as doubles: exact up to 2^53 ps, two and a half hours.
struct Sums {
  double compute = 0, communication = 0, exposed = 0, busy = 0;
  std::array<double, kClasses> total{}, exposed_by_class{};
  std::array<bool, kClasses> occurs{};
};

/// Adds the spans of one rank at one level of repeats, each standing for `times`. Reorders them.
void add_level(const Program& program, std::vector<const TimelineSpan*>& spans, double times, Sums& sums) {
  std::vector<Edge> edges;
  edges.reserve(2 * spans.size());
  for (const TimelineSpan* span : spans) {
    const Operation& op = operation_of(program, *span);
    const auto c = static_cast<std::size_t>(op.op_class);
    sums.occurs[c] = true;
    sums.total[c] += times * duration(*span);
    (op.computes() ? sums.compute : sums.communication) += times * duration(*span);
    if (span->end <= span->start || is_background(op.stream)) continue;
    edges.push_back({span->start, true, &op});
    edges.push_back({span->end, false, &op});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.time < b.time; });

  std::int64_t computing = 0, communicating = 0;
  std::array<std::int64_t, kClasses> open{};  // communications by class
  SimTime now;
  for (const Edge& edge : edges) {
    const double passed = times * static_cast<double>((edge.time - now).picoseconds());
    if (computing + communicating > 0) sums.busy += passed;
    if (computing == 0 && communicating > 0) {
      sums.exposed += passed;
      for (std::size_t c = 0; c < kClasses; ++c) {
        sums.exposed_by_class[c] += passed * static_cast<double>(open[c]) / static_cast<double>(communicating);
      }
    }
    now = edge.time;
    const std::int64_t change = edge.is_start ? 1 : -1;
    if (edge.operation->computes()) {
      computing += change;
      continue;
    }
    communicating += change;
    open[static_cast<std::size_t>(edge.operation->op_class)] += change;
  }
}

Seconds seconds(double picoseconds) { return Seconds(picoseconds * kSecondsPerPicosecond); }

RankTime to_rank_time(RankId rank, const Sums& sums, SimTime makespan) {
  RankTime t{rank, seconds(sums.compute), seconds(sums.communication), seconds(sums.exposed), seconds(sums.busy), {},
             {}};
  t.idle = seconds(static_cast<double>(makespan.picoseconds()) - sums.busy);
  for (std::size_t c = 0; c < kClasses; ++c) {
    if (!sums.occurs[c]) continue;
    t.classes.push_back({static_cast<OpClass>(c), seconds(sums.total[c]), seconds(sums.exposed_by_class[c])});
  }
  return t;
}

/// Of one rank, from its spans. Reorders them.
RankTime measured(const Program& program, const Timeline& timeline, RankId rank,
                  std::vector<const TimelineSpan*>& spans) {
  std::stable_sort(spans.begin(), spans.end(),
                   [](const TimelineSpan* a, const TimelineSpan* b) { return a->repeat < b->repeat; });
  Sums sums;
  std::vector<const TimelineSpan*> level;
  for (std::size_t i = 0; i < spans.size();) {
    level.clear();
    const std::int32_t repeat = spans[i]->repeat;
    for (; i < spans.size() && spans[i]->repeat == repeat; ++i) level.push_back(spans[i]);
    add_level(program, level, static_cast<double>(timeline.occurrences(*level.front())), sums);
  }
  return to_rank_time(rank, sums, timeline.makespan);
}

Seconds find_time(const RankTime& t, OpClass op_class, Seconds ClassTime::*which) {
  for (const ClassTime& c : t.classes) {
    if (c.op_class == op_class) return c.*which;
  }
  return Seconds(0);
}

StreamUse::Summary summary(const std::vector<double>& values) {
  StreamUse::Summary s{values.front(), 0, values.front()};
  for (const double v : values) {
    s.min = std::min(s.min, v);
    s.max = std::max(s.max, v);
    s.mean += v / static_cast<double>(values.size());
  }
  return s;
}

}  // namespace

Seconds RankTime::total(OpClass op_class) const { return find_time(*this, op_class, &ClassTime::total); }

Seconds RankTime::exposed(OpClass op_class) const { return find_time(*this, op_class, &ClassTime::exposed); }

std::vector<RankTime> rank_times(const Program& program, const Timeline& timeline) {
  std::vector<std::vector<const TimelineSpan*>> spans(timeline.recorded_ranks(program.world_size));
  for (const TimelineSpan& s : timeline.spans) spans[timeline.place(s.rank)].push_back(&s);
  std::vector<RankTime> times;
  times.reserve(spans.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    times.push_back(measured(program, timeline, timeline.recorded_at(i), spans[i]));
  }
  return times;
}

RankTime rank_time(const Program& program, const Timeline& timeline, RankId rank) {
  std::vector<const TimelineSpan*> spans;
  for (const TimelineSpan& s : timeline.spans) {
    if (s.rank == timeline.recorded(rank)) spans.push_back(&s);
  }
  return measured(program, timeline, rank, spans);
}

const RankTime& slowest_rank(const std::vector<RankTime>& times) {
  assert(!times.empty() && "a program has at least one rank");
  const auto before = [](const RankTime& a, const RankTime& b) {
    return std::tie(a.busy, a.compute) < std::tie(b.busy, b.compute);
  };
  return *std::max_element(times.begin(), times.end(), before);
}

std::vector<StreamUse> stream_use(const Program& program, const Timeline& timeline) {
  const std::size_t world = timeline.recorded_ranks(program.world_size);
  std::array<std::vector<double>, kStreams> busy;
  std::array<bool, kStreams> used{};
  for (auto& b : busy) b.assign(world, 0.0);
  for (const TimelineSpan& s : timeline.spans) {
    const Operation& op = operation_of(program, s);
    if (std::holds_alternative<Receive>(op.work) || std::holds_alternative<Wait>(op.work)) continue;
    const auto stream = static_cast<std::size_t>(op.stream);
    used[stream] = true;
    busy[stream][timeline.place(s.rank)] +=
        duration(s) * static_cast<double>(timeline.occurrences(s)) * kSecondsPerPicosecond;
  }
  const double makespan = timeline.makespan.seconds().value();
  std::vector<StreamUse> out;
  for (std::size_t i = 0; i < kStreams; ++i) {
    if (!used[i]) continue;
    StreamUse use{static_cast<Stream>(i), summary(busy[i]), {}};
    if (makespan > 0) use.utilisation = {use.busy.min / makespan, use.busy.mean / makespan, use.busy.max / makespan};
    out.push_back(use);
  }
  return out;
}

std::vector<LinkUtilisation> link_utilisation(const Timeline& timeline, const Topology& topology) {
  const Seconds makespan = timeline.makespan.seconds();
  std::vector<LinkUtilisation> out;
  for (const LinkUse& use : timeline.links) {
    const Link& link = topology.links[use.link.index()];
    LinkUtilisation u{use.link, topology.link_name(use.link), Bytes(use.bytes), 0};
    if (makespan > Seconds(0)) u.utilisation = u.bytes / (link.bandwidth * makespan);
    out.push_back(std::move(u));
  }
  std::sort(out.begin(), out.end(), [](const LinkUtilisation& a, const LinkUtilisation& b) {
    return std::tie(b.utilisation, a.link) < std::tie(a.utilisation, b.link);
  });
  return out;
}

}  // namespace moeplan
