#include "model/analysis/analysis.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <map>
#include <tuple>

namespace moeplan {

namespace {

constexpr std::size_t kClasses = kOpClassNames.size();
constexpr double kSecondsPerPicosecond = 1e-12;

bool is_launch(const Operation& operation) { return std::holds_alternative<Launches>(operation.work); }

double duration(const TimelineSpan& span) { return static_cast<double>((span.end - span.start).picoseconds()); }

/// The times at which the members of each group reached each execution of each collective.
class Arrivals {
 public:
  Arrivals(const Program& program, const Timeline& timeline) : program_(program), timeline_(timeline) {
    if (timeline.recorded_ranks(program.world_size) < 2) return;  // no other rank to wait for
    for (const TimelineSpan& s : timeline.spans) {
      if (program.operation(s.block, s.operation).communication())
        starts_[key(s, timeline.place(timeline.recorded(s.rank)))].push_back(s.start);
    }
  }

  /// The last arrival in the span's group before the span's end, at the earliest its own. `run`: number of earlier
  /// executions of its operation by its rank at its level.
  [[nodiscard]] SimTime last(const TimelineSpan& span, std::size_t run) {
    if (starts_.empty()) return span.start;
    const std::vector<SimTime>& all = of_group(span, run);
    const auto past = std::lower_bound(all.begin(), all.end(), span.end);
    return past == all.begin() ? span.start : std::max(span.start, *(past - 1));
  }

 private:
  using Key = std::tuple<std::int32_t, BlockId, std::int32_t, std::size_t>;

  /// The starts of all members of the span's group, ascending.
  const std::vector<SimTime>& of_group(const TimelineSpan& span, std::size_t run) {
    const GroupId group = program_.operation(span.block, span.operation).communication()->group;
    const RankId base = program_.group(group).base(span.rank);
    const auto [it, is_new] = of_groups_.try_emplace({span.repeat, span.block, span.operation, base, run});
    if (!is_new) return it->second;
    for (const std::size_t place : members(group, base)) {
      const auto known = starts_.find(key(span, place));
      if (known != starts_.end() && run < known->second.size()) it->second.push_back(known->second[run]);
    }
    std::sort(it->second.begin(), it->second.end());
    return it->second;
  }

  [[nodiscard]] static Key key(const TimelineSpan& s, std::size_t place) {
    return {s.repeat, s.block, s.operation, place};
  }

  /// The places of the recorded ranks that represent the members of a rank's group, each once.
  [[nodiscard]] const std::vector<std::size_t>& members(GroupId group, RankId rank) {
    const auto [it, is_new] = members_.try_emplace({group, rank});
    std::vector<std::size_t>& places = it->second;
    if (!is_new) return places;
    const GroupFamily& family = program_.group(group);
    for (std::int64_t i = 0; i < family.size; ++i)
      places.push_back(timeline_.place(timeline_.recorded(family.member(rank, i))));
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    return places;
  }

  const Program& program_;
  const Timeline& timeline_;
  std::map<Key, std::vector<SimTime>> starts_;
  std::map<std::tuple<std::int32_t, BlockId, std::int32_t, RankId, std::size_t>, std::vector<SimTime>> of_groups_;
  std::map<std::pair<GroupId, RankId>, std::vector<std::size_t>> members_;  // by first rank of a group
};

/// A change at an instant: an operation begins or ends, or (`of_waiting`) its waiting for other ranks does.
struct Edge {
  SimTime time;
  std::int64_t change;
  const Operation* operation;
  bool of_waiting = false;
};

/// Sums in picoseconds, as doubles: exact up to 2^53 ps, two and a half hours.
struct Sums {
  double compute = 0, communication = 0, exposed = 0, busy = 0, waiting = 0;
  std::array<double, kClasses> total{}, exposed_by_class{}, visible{};
  std::array<bool, kClasses> occurs{};
};

/// The operations in progress on a rank at an instant.
struct Open {
  std::int64_t computing = 0, communicating = 0, launching = 0;
  std::array<std::int64_t, kClasses> computations{}, communications{};  // by class
  std::int64_t waits = 0;                                               // number of communications that are Waits
  std::int64_t waiting = 0;             // number of other communications that wait for other ranks
  std::int64_t background_waiting = 0;  // number of background operations that wait for other ranks

  void apply(const Edge& edge) {
    const auto c = static_cast<std::size_t>(edge.operation->op_class);
    if (edge.of_waiting) {
      (is_background(edge.operation->stream) ? background_waiting : waiting) += edge.change;
    } else if (is_launch(*edge.operation)) {
      launching += edge.change;
    } else if (edge.operation->computes()) {
      computing += edge.change;
      computations[c] += edge.change;
    } else {
      communicating += edge.change;
      communications[c] += edge.change;
      if (std::holds_alternative<Wait>(edge.operation->work)) waits += edge.change;
    }
  }

  void count(double passed, Sums& sums) const {
    if (computing + communicating + launching == 0) return;
    sums.busy += passed;
    if (computing + communicating == 0) {
      sums.visible[static_cast<std::size_t>(OpClass::Host)] += passed;
      return;
    }
    const auto share = [passed](std::int64_t of_class, std::int64_t of_all) {
      return passed * static_cast<double>(of_class) / static_cast<double>(of_all);
    };
    if (computing > 0) {
      for (std::size_t c = 0; c < kClasses; ++c) {
        if (computations[c] > 0) sums.visible[c] += share(computations[c], computing);
      }
      return;
    }
    sums.exposed += passed;
    for (std::size_t c = 0; c < kClasses; ++c) {
      if (communications[c] == 0) continue;
      sums.exposed_by_class[c] += share(communications[c], communicating);
      sums.visible[c] += share(communications[c], communicating);
    }
    const std::int64_t held_up = waiting + (background_waiting > 0 ? waits : 0);
    if (held_up == communicating) sums.waiting += passed;
  }
};

/// Adds the spans of one rank at one level of repeats, ordered by start, each counted `times` times.
void add_level(const Program& program, Arrivals& arrivals, const std::vector<const TimelineSpan*>& spans, double times,
               Sums& sums) {
  std::vector<Edge> edges;
  edges.reserve(4 * spans.size());
  const auto add = [&edges](SimTime start, SimTime end, const Operation& op, bool of_waiting) {
    if (end <= start) return;
    edges.push_back({start, 1, &op, of_waiting});
    edges.push_back({end, -1, &op, of_waiting});
  };
  std::map<std::pair<BlockId, std::int32_t>, std::size_t> runs;
  for (const TimelineSpan* span : spans) {
    const Operation& op = program.operation(span->block, span->operation);
    const auto c = static_cast<std::size_t>(op.op_class);
    sums.occurs[c] = true;
    sums.total[c] += times * duration(*span);
    if (!is_launch(op)) (op.computes() ? sums.compute : sums.communication) += times * duration(*span);
    if (!is_background(op.stream)) add(span->start, span->end, op, false);
    if (std::holds_alternative<Receive>(op.work)) add(span->start, span->end, op, true);
    if (!op.communication()) continue;
    const std::size_t run = runs[{span->block, span->operation}]++;
    add(span->start, arrivals.last(*span, run), op, true);
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) { return a.time < b.time; });

  Open open;
  SimTime now;
  for (const Edge& edge : edges) {
    open.count(times * static_cast<double>((edge.time - now).picoseconds()), sums);
    now = edge.time;
    open.apply(edge);
  }
}

Seconds seconds(double picoseconds) { return Seconds(picoseconds * kSecondsPerPicosecond); }

RankTime to_rank_time(RankId rank, const Sums& sums, SimTime makespan) {
  const double idle = static_cast<double>(makespan.picoseconds()) - sums.busy;
  RankTime t{.rank = rank,
             .compute = seconds(sums.compute),
             .communication = seconds(sums.communication),
             .exposed_communication = seconds(sums.exposed),
             .busy = seconds(sums.busy),
             .idle = seconds(idle),
             .waiting = seconds(sums.waiting + idle),
             .classes = {}};
  for (std::size_t c = 0; c < kClasses; ++c) {
    if (!sums.occurs[c]) continue;
    t.classes.push_back({.op_class = static_cast<OpClass>(c),
                         .total = seconds(sums.total[c]),
                         .exposed = seconds(sums.exposed_by_class[c]),
                         .visible = seconds(sums.visible[c])});
  }
  return t;
}

/// The times of one rank, from its spans, which are reordered.
RankTime measured(const Program& program, const Timeline& timeline, Arrivals& arrivals, RankId rank,
                  std::vector<const TimelineSpan*>& spans) {
  std::stable_sort(spans.begin(), spans.end(),
                   [](const TimelineSpan* a, const TimelineSpan* b) { return a->repeat < b->repeat; });
  Sums sums;
  std::vector<const TimelineSpan*> level;
  for (std::size_t i = 0; i < spans.size();) {
    level.clear();
    const std::int32_t repeat = spans[i]->repeat;
    for (; i < spans.size() && spans[i]->repeat == repeat; ++i) level.push_back(spans[i]);
    add_level(program, arrivals, level, static_cast<double>(timeline.occurrences(*level.front())), sums);
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

Seconds RankTime::visible(OpClass op_class) const { return find_time(*this, op_class, &ClassTime::visible); }

std::vector<RankTime> rank_times(const Program& program, const Timeline& timeline) {
  std::vector<std::vector<const TimelineSpan*>> spans(timeline.recorded_ranks(program.world_size));
  for (const TimelineSpan& s : timeline.spans) spans[timeline.place(s.rank)].push_back(&s);
  Arrivals arrivals(program, timeline);
  std::vector<RankTime> times;
  times.reserve(spans.size());
  for (std::size_t i = 0; i < spans.size(); ++i) {
    times.push_back(measured(program, timeline, arrivals, timeline.recorded_at(i), spans[i]));
  }
  return times;
}

const RankTime& binding_rank(const std::vector<RankTime>& times) {
  assert(!times.empty() && "a program has at least one rank");
  const auto before = [](const RankTime& a, const RankTime& b) {
    return std::tie(a.waiting, b.compute) < std::tie(b.waiting, a.compute);
  };
  return *std::min_element(times.begin(), times.end(), before);
}

std::vector<RankTime> binding_ranks_by_stage(const Program& program, const std::vector<RankTime>& times) {
  std::vector<std::vector<RankTime>> by_stage(program.stages.size());
  for (const RankTime& t : times) by_stage[static_cast<std::size_t>(program.stage_of(t.rank))].push_back(t);
  std::vector<RankTime> out;
  for (const std::vector<RankTime>& of_stage : by_stage) out.push_back(binding_rank(of_stage));
  return out;
}

std::vector<StreamUse> stream_use(const Program& program, const Timeline& timeline) {
  const std::size_t world = timeline.recorded_ranks(program.world_size);
  std::array<std::vector<double>, kStreams> busy;
  std::array<bool, kStreams> used{};
  for (auto& b : busy) b.assign(world, 0.0);
  for (const TimelineSpan& s : timeline.spans) {
    const Operation& op = program.operation(s.block, s.operation);
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
