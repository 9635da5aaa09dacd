#include "model/analysis/critical_path.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "model/analysis/bottlenecks.hpp"
#include "model/program/resolve.hpp"

namespace moeplan {

namespace {

/// A span, or all iterations of a repeat, as one item with a begin and an end.
struct Item {
  SimTime start;
  SimTime end;
  const TimelineSpan* span = nullptr;  // null: a repeat
  std::int32_t repeat = -1;
  std::int64_t run = 0;  // of the span: number of earlier executions of its block on this rank and level
};

/// One execution of an operation, independent of the rank.
struct Run {
  BlockId block;
  std::int32_t operation;
  std::int64_t run;
};

/// Spans and repeats by level (the enclosing repeat) and rank, ordered by end.
class Levels {
 public:
  Levels(const Program& program, const Timeline& timeline) : program_(program), timeline_(timeline) {
    items_.assign(timeline.repeats.size() + 1,
                  std::vector<std::vector<Item>>(timeline.recorded_ranks(program.world_size)));
    repeats_.assign(timeline.repeats.size() + 1,
                    std::vector<std::vector<Item>>(timeline.recorded_ranks(program.world_size)));
    for (const TimelineSpan& s : timeline.spans) {
      std::vector<SimTime>& starts = starts_[{s.repeat, s.block, s.operation, s.rank}];
      // The operation that a Wait waits for ends with it and represents it.
      if (s.end > s.start && !std::holds_alternative<Wait>(operation_of(s).work)) {
        items_[index(s.repeat)][timeline.place(s.rank)].push_back(
            {s.start, s.end, &s, -1, static_cast<std::int64_t>(starts.size())});
      }
      starts.push_back(s.start);
    }
    find_begins();
    for (std::size_t i = 0; i < timeline.repeats.size(); ++i) {
      const TimelineRepeat& r = timeline.repeats[i];
      for (std::size_t place = 0; place < begins_[i].size(); ++place) {
        const std::optional<SimTime>& begin = begins_[i][place];
        if (!begin || r.period == SimTime()) continue;
        repeats_[index(r.parent)][place].push_back(
            {*begin, *begin + SimTime::scaled(r.period, r.count), nullptr, static_cast<std::int32_t>(i)});
      }
    }
    for (auto* levels : {&items_, &repeats_}) {
      for (auto& level : *levels) {
        for (auto& of_rank : level) sort(of_rank);
      }
    }
  }

  /// When the rank begins the level: the Timeline, or the recorded iteration of a repeat.
  [[nodiscard]] SimTime begin(std::int32_t level, RankId rank) const {
    return level < 0 ? SimTime() : begins_[static_cast<std::size_t>(level)][timeline_.place(rank)].value_or(SimTime());
  }

  /// The predecessor that let `after` (none: the end of the level) begin at `time` on this rank: among the items that
  /// ended last by then, a dependency, otherwise the previous operation on the stream, otherwise a repeat, otherwise
  /// the previous block. None if there is no such item.
  [[nodiscard]] const Item* before(std::int32_t level, RankId rank, SimTime time,
                                   const std::optional<Run>& after) const {
    const std::vector<Item>& spans = items_[index(level)][timeline_.place(rank)];
    const std::vector<Item>& repeats = repeats_[index(level)][timeline_.place(rank)];
    const auto from = past(spans, time);
    const auto repeat = past(repeats, time);
    const bool has_repeat = repeat != repeats.begin();
    if (from == spans.begin()) return has_repeat ? &*(repeat - 1) : nullptr;
    const SimTime last = (from - 1)->end;
    if (has_repeat && (repeat - 1)->end > last) return &*(repeat - 1);
    const Item* on_stream = nullptr;
    for (auto it = from; after && it != spans.begin() && (it - 1)->end == last; --it) {
      const Item& item = *(it - 1);
      if (item.run != after->run || item.span->block != after->block) continue;
      const Operation& operation = program_.operation(after->block, after->operation);
      const auto& needed = operation.after;
      if (std::find(needed.begin(), needed.end(), item.span->operation) != needed.end()) return &item;
      if (operation_of(*item.span).stream == operation.stream) on_stream = &item;
    }
    if (on_stream) return on_stream;
    return has_repeat && (repeat - 1)->end == last ? &*(repeat - 1) : &*(from - 1);
  }

  /// The start of the same execution of the item's operation on another rank; none if that was not recorded.
  [[nodiscard]] std::optional<SimTime> start_on(const Item& item, RankId rank) const {
    const auto it = starts_.find({item.span->repeat, item.span->block, item.span->operation, timeline_.recorded(rank)});
    if (it == starts_.end() || item.run >= static_cast<std::int64_t>(it->second.size())) return std::nullopt;
    return it->second[static_cast<std::size_t>(item.run)];
  }

  /// The Send whose message the item, a Receive, ended with; none if that was not recorded.
  [[nodiscard]] const Item* sent(const Item& item, const Receive& receive) const {
    const RankId sender = timeline_.recorded(program_.group(receive.group).shifted(item.span->rank, -receive.shift));
    const std::vector<Item>& spans = items_[index(item.span->repeat)][timeline_.place(sender)];
    for (auto it = past(spans, item.end); it != spans.begin() && (it - 1)->end == item.end; --it) {
      const auto* send = std::get_if<Send>(&operation_of(*(it - 1)->span).work);
      if (send && send->shift == receive.shift && send->channel == receive.channel) return &*(it - 1);
    }
    return nullptr;
  }

  /// The lowest of the ranks that end last.
  [[nodiscard]] RankId last_rank() const {
    RankId last;
    SimTime end;
    const auto consider = [&](std::size_t place, SimTime ends) {
      if (ends <= end) return;
      end = ends;
      last = timeline_.recorded_at(place);
    };
    for (std::size_t place = 0; place < items_.front().size(); ++place) {
      const std::vector<Item>& spans = items_.front()[place];
      if (!spans.empty()) consider(place, spans.back().end);
      for (const Item& item : repeats_.front()[place]) {
        if (!timeline_.repeats[static_cast<std::size_t>(item.repeat)].in_step) consider(place, item.end);
      }
    }
    return last;
  }

  [[nodiscard]] const Operation& operation_of(const TimelineSpan& span) const {
    return program_.operation(span.block, span.operation);
  }

 private:
  void find_begins() {
    const std::size_t ranks = items_.front().size();
    for (const TimelineRepeat& r : timeline_.repeats)
      begins_.emplace_back(ranks, r.in_step ? std::optional(r.start) : std::nullopt);
    for (const TimelineSpan& s : timeline_.spans) {
      for (std::int32_t i = s.repeat; i >= 0;) {
        const TimelineRepeat& r = timeline_.repeats[static_cast<std::size_t>(i)];
        std::optional<SimTime>& begin = begins_[static_cast<std::size_t>(i)][timeline_.place(s.rank)];
        if (!r.in_step && (!begin || s.start < *begin)) begin = s.start;
        i = r.parent;
      }
    }
  }

  static std::size_t index(std::int32_t level) { return static_cast<std::size_t>(level + 1); }
  static void sort(std::vector<Item>& items) {
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.end < b.end; });
  }
  static std::vector<Item>::const_iterator past(const std::vector<Item>& items, SimTime time) {
    return std::upper_bound(items.begin(), items.end(), time, [](SimTime t, const Item& i) { return t < i.end; });
  }

  const Program& program_;
  const Timeline& timeline_;
  std::vector<std::vector<std::vector<Item>>> items_;        // by level + 1, then rank
  std::vector<std::vector<std::vector<Item>>> repeats_;      // the same
  std::vector<std::vector<std::optional<SimTime>>> begins_;  // by repeat, then rank; none: it has no part in it
  std::map<std::tuple<std::int32_t, BlockId, std::int32_t, RankId>, std::vector<SimTime>> starts_;  // by execution
};

class Walk {
 public:
  Walk(const Program& program, const Timeline& timeline, const Cluster& cluster, PathDetail detail)
      : program_(program),
        timeline_(timeline),
        detail_(detail),
        levels_(program, timeline),
        holders_(program, cluster) {}

  std::vector<PathSegment> run() {
    if (timeline_.spans.empty()) return {};
    const TimelineSpan& any = timeline_.spans.back();
    next_ = {any.block, any.operation};
    through(-1, levels_.last_rank(), timeline_.makespan, 1);
    std::reverse(path_.begin(), path_.end());
    return std::move(path_);
  }

 private:
  /// Traces the path from `to` back to the begin of one level, starting on `rank`; returns the rank on which it ends.
  RankId through(std::int32_t level, RankId rank, SimTime to, std::int64_t times) {
    SimTime time = to;
    std::optional<Run> after;
    for (SimTime from = levels_.begin(level, rank); time > from; from = levels_.begin(level, rank)) {
      const Item* item = levels_.before(level, rank, time, after);
      const SimTime ended = item ? std::max(item->end, from) : from;
      if (ended < time) {
        add({rank, next_.first, next_.second, Bottleneck::Unrecorded, {}, ended, time - ended, times});
        time = ended;
      }
      if (!item || time <= from) break;
      if (item->span) {
        after_ = Run{item->span->block, item->span->operation, item->run};
        rank = span(*item, from, times);
        after = after_;
        time = std::max(levels_.begin(level, rank), reached_);
        continue;
      }
      rank = through_copies(item->repeat, rank, times);
      after.reset();
      time = std::max(levels_.begin(level, rank), levels_.begin(item->repeat, rank));
    }
    return rank;
  }

  /// Traces the path through all iterations of a repeat. Where ranks are not in step, the next one begins on the rank
  /// on which the path through the one after it ended.
  RankId through_copies(std::int32_t index, RankId rank, std::int64_t times) {
    const TimelineRepeat& repeat = timeline_.repeats[static_cast<std::size_t>(index)];
    const auto through_one = [&](RankId on, std::int64_t counted) {
      return through(index, on, levels_.begin(index, on) + repeat.period, counted);
    };
    if (repeat.in_step) return through_one(rank, times * repeat.count);
    for (std::int64_t left = repeat.count; left > 0; --left) {
      const std::size_t first = path_.size();
      const RankId next = through_one(rank, times);
      if (next == rank) {
        for (std::size_t i = first; i < path_.size(); ++i) path_[i].times *= left;
        break;
      }
      rank = next;
    }
    return rank;
  }

  /// Adds a span's intervals; stores in reached_ the time at which the path continues, and returns the rank.
  RankId span(const Item& item, SimTime from, std::int64_t times) {
    const TimelineSpan& s = *item.span;
    const RankId rank = s.rank;
    const Operation& operation = levels_.operation_of(s);
    next_ = {s.block, s.operation};
    const SimTime start = std::max(s.start, from);
    reached_ = start;
    const PathSegment like{rank, s.block, s.operation, Bottleneck::Waiting, {}, start, {}, times};
    if (const auto* receive = std::get_if<Receive>(&operation.work)) {
      if (const Item* message = levels_.sent(item, *receive)) {
        const SimTime waited = s.end - start;
        const RankId sender = span(*message, from, times);
        next_ = {message->span->block, message->span->operation};
        after_ = Run{message->span->block, message->span->operation, message->run};
        if (!path_.empty()) path_.back().waited = waited;
        return sender;
      }
      add_whole(like, s.end, Bottleneck::Waiting);
      return rank;
    }
    if (std::holds_alternative<Launches>(operation.work)) {
      add_whole(like, s.end, Bottleneck::Host);
      return rank;
    }
    if (std::holds_alternative<HostCopy>(operation.work)) {
      add_whole(like, s.end, Bottleneck::HostMemory);
      return rank;
    }
    if (detail_ == PathDetail::Operations && (operation.computes() || std::holds_alternative<Send>(operation.work))) {
      add_whole(like, s.end, Bottleneck::Unrecorded);
      return rank;
    }
    if (std::holds_alternative<Send>(operation.work)) {
      add_stretches(like, holders_.of_message(operation, rank, s.end - start), 0);
      return rank;
    }
    if (operation.computes()) {
      add_stretches(like, holders_.of_computation(operation, rank, s.end - start),
                    compute_load(program_, operation, rank).flops);
      return rank;
    }
    return communication(item, like);
  }

  /// The same for a communication, of which `like` is the interval so far.
  RankId communication(const Item& item, PathSegment like) {
    const TimelineSpan& s = *item.span;
    RankId last = s.rank;
    SimTime came = like.start;
    for (const RankId peer : holders_.peers(s.block, s.operation, s.rank)) {
      const std::optional<SimTime> t = levels_.start_on(item, peer);
      if (!t || *t <= came) continue;
      came = *t;
      last = peer;
    }
    if (came >= s.end) {
      add_whole(like, s.end, Bottleneck::Waiting);
      return s.rank;
    }
    like.waited = came - like.start;
    like.start = came;
    reached_ = came;
    if (detail_ == PathDetail::Operations) {
      add_whole(like, s.end, Bottleneck::Unrecorded);
    } else {
      add_stretches(like, holders_.of_communication(s.block, s.operation, s.rank, s.end - came), 0);
    }
    return last;
  }

  /// Adds the interval until `end` undivided.
  void add_whole(PathSegment interval, SimTime end, Bottleneck limited_by) {
    interval.limited_by = limited_by;
    interval.duration = end - interval.start;
    add(interval);
  }

  void add_stretches(const PathSegment& like, const std::vector<LimitedTime>& stretches, double flops) {
    SimTime end = like.start;
    for (const LimitedTime& h : stretches) end += h.duration;
    bool counted = false;
    for (auto h = stretches.rbegin(); h != stretches.rend(); ++h) {
      end = end - h->duration;
      PathSegment segment = like;
      segment.limited_by = h->limited_by;
      segment.link = h->link;
      segment.start = end;
      segment.duration = h->duration;
      if (h + 1 != stretches.rend()) segment.waited = SimTime();
      if (!counted && (h->limited_by == Bottleneck::TensorCores || h->limited_by == Bottleneck::Memory)) {
        segment.flops = flops;
        counted = true;
      }
      add(segment);
    }
  }

  void add(const PathSegment& segment) {
    if (segment.duration > SimTime()) path_.push_back(segment);
  }

  const Program& program_;
  const Timeline& timeline_;
  PathDetail detail_;
  Levels levels_;
  BottleneckAttribution holders_;
  SimTime reached_;
  std::optional<Run> after_;               // the execution that the path came from, at reached_
  std::pair<BlockId, std::int32_t> next_;  // the operation that the path came from
  std::vector<PathSegment> path_;          // backwards
};

}  // namespace

std::vector<PathSegment> critical_path(const Program& program, const Timeline& timeline, const Cluster& cluster,
                                       PathDetail detail) {
  return Walk(program, timeline, cluster, detail).run();
}

}  // namespace moeplan
