#include "model/analysis/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "model/base/diagnostics.hpp"
#include "model/program/resolve.hpp"
#include "model/text/document.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan {

namespace {

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class Name, std::size_t N>
std::string_view name_of(const std::array<std::pair<Name, std::string_view>, N>& names, Name which) {
  return names[static_cast<std::size_t>(which)].second;
}

/// An operation on one rank, or a computation on any rank: the text common to its slices.
struct Described {
  std::string head;            // "name":...,"cat":...
  std::string args;            // without the occurrences
  std::vector<RankId> arrows;  // receivers that are shown
};

/// An execution of an operation on a rank: block, operation, rank, and number of earlier executions.
using RunOf = std::tuple<BlockId, std::int32_t, RankId, std::int64_t>;

// Perfetto has special rules for process and thread 0 (google/perfetto issue 394, pull request 2278): count from 1.
std::int64_t pid_of(RankId rank) { return std::int64_t{rank.value()} + 1; }
int tid_of(Stream stream) { return static_cast<int>(stream) + 1; }

/// Appends the span, or with `offsets` (by repeat) all its occurrences as spans of their own.
void append_copies(TimelineSpan span, const std::vector<std::vector<SimTime>>* offsets,
                   std::vector<TimelineSpan>& out) {
  if (!offsets || span.repeat < 0) return out.push_back(span);
  const std::vector<SimTime>& of_repeat = (*offsets)[static_cast<std::size_t>(span.repeat)];
  span.repeat = -1;
  for (const SimTime offset : of_repeat) {
    out.push_back(span);
    out.back().start += offset;
    out.back().end += offset;
  }
}

/// All copies of an iteration as one slice: of all ranks, or of one that begins it at its own time.
struct Copies {
  const TimelineRepeat* repeat;
  std::int64_t pid;
  int tid;
  SimTime start;
};

/// The copies of all repeats that are in step, and of those with some of the spans. Nested repeats are on separate
/// threads: the copies of an inner one lie within an outer one's first iteration.
std::vector<Copies> copies_of(const Timeline& timeline, const std::vector<TimelineSpan>& spans,
                              std::int64_t repeats_pid) {
  const auto repeat = [&](std::int32_t i) -> const TimelineRepeat& {
    return timeline.repeats[static_cast<std::size_t>(i)];
  };
  const auto depth = [&](std::int32_t i) {
    int around = 0;
    for (; i >= 0; i = repeat(i).parent) ++around;
    return around;
  };
  std::vector<Copies> out;
  std::map<std::pair<std::int32_t, RankId>, SimTime> begins;
  for (std::int32_t i = 0; i < std::ssize(timeline.repeats); ++i) {
    if (repeat(i).in_step) out.push_back({&repeat(i), repeats_pid, depth(i), repeat(i).start + repeat(i).period});
  }
  for (const TimelineSpan& s : spans) {
    for (std::int32_t i = s.repeat; i >= 0; i = repeat(i).parent) {
      if (repeat(i).in_step) continue;
      const auto [it, is_new] = begins.try_emplace({i, s.rank}, s.start);
      if (!is_new) it->second = std::min(it->second, s.start);
    }
  }
  for (const auto& [of, begin] : begins) {
    const auto& [i, rank] = of;
    out.push_back({&repeat(i), pid_of(rank), static_cast<int>(kStreams) + depth(i), begin + repeat(i).period});
  }
  return out;
}

class TraceWriter {
 public:
  TraceWriter(const Program& program, const Timeline& timeline, const TraceOptions& options)
      : program_(program), timeline_(timeline), options_(options), ranks_(options.ranks) {
    if (ranks_.empty()) ranks_ = default_traced_ranks(program.world_size, options.node_of_rank);
    if (options.expands_repeats) offsets_ = repeat_offsets(timeline);
    shown_.assign(static_cast<std::size_t>(program.world_size), false);
    for (const RankId r : ranks_) shown_[r.index()] = true;
    std::vector<std::vector<RankId>> shown_as(timeline.recorded_ranks(program.world_size));
    for (const RankId r : ranks_) shown_as[timeline.place(r)].push_back(r);
    for (const TimelineSpan& s : timeline.spans) {
      for (const RankId rank : shown_as[timeline.place(s.rank)]) add_span(s, rank);
    }
    if (options.expands_repeats) sort_spans(spans_);
  }

  std::string text() {
    add("{{\"displayTimeUnit\":\"ns\",\"otherData\":{},\n\"traceEvents\":[", notes());
    names();
    spans();
    arrows();
    repeats();
    counters();
    add("\n]}}\n");
    return fmt::to_string(out_);
  }

 private:
  template <class... T>
  void add(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<T>(values)...);
  }

  /// The span on this rank, with all its copies if they are shown.
  void add_span(TimelineSpan span, RankId rank) {
    span.rank = rank;
    append_copies(span, options_.expands_repeats ? &offsets_ : nullptr, spans_);
    if (spans_.size() > kTraceSlices)
      throw InputError(
          Diagnostic{{"--trace"}, "", fmt::format("more than {} operations; select fewer ranks", kTraceSlices)});
  }

  /// Whether a slice of this time is in the window.
  [[nodiscard]] bool is_in_window(SimTime start, SimTime end) const {
    return !options_.window || (start < options_.window->second && end > options_.window->first);
  }
  [[nodiscard]] bool shows_repeats() const { return !timeline_.repeats.empty() && !options_.expands_repeats; }

  [[nodiscard]] std::int64_t repeats_pid() const { return program_.world_size + 1; }
  [[nodiscard]] std::int64_t links_pid() const { return program_.world_size + 2; }

  void next_event() {
    add("{}", first_event_ ? "\n" : ",\n");
    first_event_ = false;
  }

  /// Microseconds with all six decimals.
  struct Microseconds {
    explicit Microseconds(SimTime t) : whole(t.picoseconds() / 1'000'000), rest(t.picoseconds() % 1'000'000) {}
    std::int64_t whole, rest;
  };
  void add_time(std::string_view key, SimTime t) {
    const Microseconds us(t);
    add("\"{}\":{}.{:06}", key, us.whole, us.rest);
  }

  std::string notes() const {
    std::string shown;
    for (const RankId r : ranks_) shown += fmt::format("{}{}", shown.empty() ? "" : ",", r.value());
    const Microseconds makespan(timeline_.makespan);
    return fmt::format(
        "{{\"makespan_us\":{}.{:06},\"world_size\":{},\"ranks_shown\":[{}],\"ranks_left_out\":{},"
        "\"most_arrows_out_of_a_slice\":{},\"arrows\":{},\"repeats\":{}{}}}",
        makespan.whole, makespan.rest, program_.world_size, shown,
        program_.world_size - static_cast<std::int64_t>(ranks_.size()), kTraceArrows,
        json_text("from a sender's slice to the receivers' at the nearest positions of the group; "
                  "receivers that are not shown have none"),
        json_text(options_.expands_repeats
                      ? "all iterations are drawn"
                      : "iterations that are exact copies are not drawn; the process \"repeats\" counts them"),
        options_.links.empty()
            ? ""
            : ",\"links\":" + json_text("the busiest links; in the time of copies, the mean of an iteration"));
  }

  void names() {
    for (const RankId r : ranks_) {
      std::string name = fmt::format("rank {}", r.value());
      if (r.index() < options_.node_of_rank.size()) name += fmt::format(" (node {})", options_.node_of_rank[r.index()]);
      process(pid_of(r), name);
      for (const auto& [stream, stream_name] : kStreamNames) {
        if (stream <= Stream::Copy || uses(stream)) thread(pid_of(r), tid_of(stream), stream_name);
      }
    }
    if (shows_repeats() && std::any_of(timeline_.repeats.begin(), timeline_.repeats.end(),
                                       [](const TimelineRepeat& r) { return r.in_step; }))
      process(repeats_pid(), "repeats");
    if (!options_.links.empty()) process(links_pid(), "links");
  }

  bool uses(Stream stream) const {
    return std::any_of(timeline_.spans.begin(), timeline_.spans.end(),
                       [&](const TimelineSpan& s) { return operation_of(s).stream == stream; });
  }

  void process(std::int64_t pid, std::string_view name) {
    next_event();
    add("{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{},\"args\":{{\"name\":\"{}\"}}}}", pid, name);
    next_event();
    add("{{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{0},\"args\":{{\"sort_index\":{0}}}}}", pid);
  }

  void thread(std::int64_t pid, int tid, std::string_view name) {
    next_event();
    add("{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{},\"tid\":{},\"args\":{{\"name\":\"{}\"}}}}", pid, tid, name);
    next_event();
    add("{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{},\"tid\":{},\"args\":{{\"sort_index\":{}}}}}", pid,
        tid, tid);
  }

  const Operation& operation_of(const TimelineSpan& s) const { return program_.operation(s.block, s.operation); }

  const Described& described(const TimelineSpan& s) {
    const auto [it, is_new] = described_.try_emplace({s.block, s.operation, s.rank});
    Described& d = it->second;
    if (!is_new) return d;
    const Operation& op = operation_of(s);
    const std::string_view op_class = name_of(kOpClassNames, op.op_class);
    d.head = fmt::format("\"name\":{},\"cat\":\"{}\"", json_text(op.name), op_class);
    d.args = fmt::format("\"class\":\"{}\",\"block\":{}", op_class, json_text(program_.blocks[s.block.index()].name));
    if (const Communication* c = op.communication()) {
      d.args += fmt::format(",\"collective\":\"{}\",\"group\":{}", name_of(kCollectiveNames, c->collective),
                            json_text(program_.group(c->group).name));
      describe_traffic(op, s.rank, d);
    } else if (op.computes()) {
      const ComputeLoad load = compute_load(program_, op, s.rank);
      if (load.flops > 0) d.args += fmt::format(",\"flops\":{}", load.flops);
      d.args += fmt::format(",\"bytes\":{}", load.bytes);
    }
    return d;
  }

  void describe_traffic(const Operation& op, RankId rank, Described& d) const {
    const GroupFamily& family = program_.group(op.communication()->group);
    std::int64_t sent = 0, received = 0;
    for (const Flow& f : flows_to(program_, op, rank)) received += f.bytes;
    for (const Flow& f : flows_from(program_, op, rank)) {
      sent += f.bytes;
      if (shown_[f.to.index()]) d.arrows.push_back(f.to);
    }
    const auto distance = [&](RankId to) {
      return (family.position(to) - family.position(rank) + family.size) % family.size;
    };
    std::sort(d.arrows.begin(), d.arrows.end(), [&](RankId a, RankId b) { return distance(a) < distance(b); });
    d.arrows.erase(std::unique(d.arrows.begin(), d.arrows.end()), d.arrows.end());
    if (d.arrows.size() > static_cast<std::size_t>(kTraceArrows))
      d.arrows.resize(static_cast<std::size_t>(kTraceArrows));
    d.args += fmt::format(",\"bytes_sent\":{},\"bytes_received\":{}", sent, received);
  }

  void spans() {
    std::map<std::tuple<BlockId, std::int32_t, RankId>, std::int64_t> runs;
    for (const TimelineSpan& s : spans_) {
      const bool is_communication = operation_of(s).communication() != nullptr;
      const std::int64_t run = is_communication ? runs[{s.block, s.operation, s.rank}]++ : 0;
      if (!is_in_window(s.start, s.end)) continue;
      const Described& d = described(s);
      next_event();
      add("{{\"ph\":\"X\",{},\"pid\":{},\"tid\":{},", d.head, pid_of(s.rank), tid_of(operation_of(s).stream));
      add_time("ts", s.start);
      add(",");
      add_time("dur", s.end - s.start);
      add(",\"args\":{{{},\"occurrences\":{}}}}}", d.args, timeline_.occurrences(s));
      if (is_communication) communications_.emplace(RunOf{s.block, s.operation, s.rank, run}, &s);
    }
  }

  /// All ranks execute the same sequence, so the n-th execution of an operation on the sender matches the n-th on the
  /// receiver.
  void arrows() {
    std::int64_t id = 0;
    for (const auto& [run, from] : communications_) {
      const auto& [block, operation, rank, number] = run;
      for (const RankId peer : described(*from).arrows) {
        const auto to = communications_.find({block, operation, peer, number});
        if (to == communications_.end()) continue;
        const SimTime met = std::max(from->start, to->second->start);
        arrow_end("s", ++id, *from, std::min(met, from->end));
        arrow_end("f", id, *to->second, std::clamp(met, to->second->start, to->second->end));
      }
    }
  }

  void arrow_end(std::string_view phase, std::int64_t id, const TimelineSpan& s, SimTime time) {
    next_event();
    add("{{\"ph\":\"{}\",\"name\":\"flow\",\"cat\":\"flow\",\"id\":{},\"pid\":{},\"tid\":{},", phase, id,
        pid_of(s.rank), tid_of(operation_of(s).stream));
    add_time("ts", time);
    add("{}", phase == "f" ? ",\"bp\":\"e\"}" : "}");
  }

  void repeats() {
    if (!shows_repeats()) return;
    std::set<std::pair<std::int64_t, int>> rows;
    for (const Copies& c : copies_of(timeline_, spans_, repeats_pid())) {
      const TimelineRepeat& r = *c.repeat;
      if (!r.in_step && rows.emplace(c.pid, c.tid).second) thread(c.pid, c.tid, "repeats");
      if (!is_in_window(c.start, c.start + SimTime::scaled(r.period, r.count - 1))) continue;
      next_event();
      add("{{\"ph\":\"X\",\"name\":\"x {} more {} of {}\",\"cat\":\"repeat\",\"pid\":{},\"tid\":{},", r.count - 1,
          r.count == 2 ? "iteration" : "iterations", human(r.period.seconds()), c.pid, c.tid);
      add_time("ts", c.start);
      add(",");
      add_time("dur", SimTime::scaled(r.period, r.count - 1));
      add(",\"args\":{{\"iterations\":{},", r.count);
      add_time("period_us", r.period);
      add("}}}}");
    }
  }

  /// A counter keeps its value until its next event.
  void counters() {
    for (const LinkTrack& track : options_.links) {
      const std::string name = json_text(track.name);
      for (const RatePoint& p : track.rates) {
        next_event();
        add("{{\"ph\":\"C\",\"name\":{},\"pid\":{},", name, links_pid());
        add_time("ts", p.time);
        add(",\"args\":{{\"GB/s\":{}}}}}", p.rate.value() / 1e9);
      }
    }
  }

  const Program& program_;
  const Timeline& timeline_;
  const TraceOptions& options_;
  std::vector<RankId> ranks_;
  std::vector<bool> shown_;                    // by RankId
  std::vector<TimelineSpan> spans_;            // of the ranks that are shown
  std::vector<std::vector<SimTime>> offsets_;  // of copies, by repeat, where they are shown
  std::map<std::tuple<BlockId, std::int32_t, RankId>, Described> described_;
  std::map<RunOf, const TimelineSpan*> communications_;
  fmt::memory_buffer out_;
  bool first_event_ = true;
};

}  // namespace

std::vector<RankId> default_traced_ranks(std::int64_t world_size, const std::vector<int>& node_of_rank) {
  constexpr std::int64_t kAll = 16;         // number of ranks that fit on a screen
  constexpr std::int64_t kOfFirstNode = 8;  // a whole node of typical clusters
  constexpr std::size_t kMost = 64;
  std::vector<RankId> ranks;
  std::map<int, std::int64_t> of_node;
  for (std::int64_t r = 0; r < world_size && ranks.size() < kMost; ++r) {
    const auto i = static_cast<std::size_t>(r);
    const int node = i < node_of_rank.size() ? node_of_rank[i] : 0;
    const std::int64_t before = of_node[node]++;
    if (world_size <= kAll || before == 0 || (node == 0 && before < kOfFirstNode)) ranks.emplace_back(i);
  }
  return ranks;
}

std::string chrome_trace(const Program& program, const Timeline& timeline, const TraceOptions& options) {
  return TraceWriter(program, timeline, options).text();
}

void write_chrome_trace(const std::filesystem::path& path, const Program& program, const Timeline& timeline,
                        const TraceOptions& options) {
  write_file_atomically(path, chrome_trace(program, timeline, options));
}

}  // namespace moeplan
