#include "sim/program/simulate_stages.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "model/base/in_parallel.hpp"
#include "model/program/compose_stages.hpp"
#include "sim/flows/rank_classes.hpp"
#include "sim/program/stage_links.hpp"

namespace moeplan::sim {

namespace {

/// The longest time that a link needs for its bytes.
SimTime slowest(const std::vector<double>& bytes, const Topology& topology) {
  SimTime most;
  for (std::size_t l = 0; l < bytes.size(); ++l) {
    most = std::max(most, SimTime::from_seconds(Bytes(bytes[l]) / topology.links[l].bandwidth));
  }
  return most;
}

/// By link of a machine, what a segment alone carries; of links that the view shows to carry the same, its Timeline has
/// the first only.
std::vector<double> bytes_of_links(const Timeline& alone, const Topology& machine, const SymmetricView* view) {
  std::vector<double> bytes(machine.links.size(), 0.0);
  std::vector<double> by_orbit(view ? view->capacity.size() : 0, 0.0);
  const auto orbit = [&](LinkId link) { return static_cast<std::size_t>(view->orbit_of(link)); };
  for (const LinkUse& use : alone.links) (view ? by_orbit[orbit(use.link)] : bytes[use.link.index()]) = use.bytes;
  for (std::size_t l = 0; view && l < bytes.size(); ++l) bytes[l] = by_orbit[orbit(LinkId(l))];
  return bytes;
}

class StageSimulator {
 public:
  StageSimulator(const Program& program, StageClusters& machines, const SimulateOptions& options)
      : program_(program),
        machines_(machines),
        options_(options),
        stages_(stage_segments(program)),
        local_(stage_program(program)),
        count_(std::ssize(program.stages)),
        shares_nodes_(stages_share_nodes()),
        links_(stages_, machines, program.ranks_per_stage(), shares_nodes_ || keeps_any()),
        watched_(links_.watched(options.watch)),
        alone_(program.stages.size(), std::vector<Timeline>(stages_.segments.size())),
        times_(program.stages.size(), std::vector<SegmentTimes>(stages_.segments.size())) {}

  Timeline run() {
    simulate_segments();
    const ComposedRun run = compose_stages(stages_, times_, [&](std::size_t stage, const StageMessage& m) {
      const auto to = static_cast<std::int64_t>(stages_.shifted(stage, m.shift));
      return SimTime::from_seconds(machines_.transfer(count_, static_cast<std::int64_t>(stage), to).together(m.bytes));
    });
    Timeline out;
    out.makespan = out.joined_end = std::max(run.makespan, busiest_link());
    out.segment = program_.ranks_per_stage();
    if (keeps_any()) add_records(run, out);
    return out;
  }

 private:
  void simulate_segments() {
    std::set<std::pair<std::size_t, std::size_t>> distinct;  // machine, segment
    for (std::size_t s = 0; s < stages_.order.size(); ++s) {
      for (const std::size_t i : stages_.order[s]) distinct.emplace(machine(s), i);
    }
    const std::vector<std::pair<std::size_t, std::size_t>> each(distinct.begin(), distinct.end());
    for (const auto& [m, segment] : each) of_machines_.emplace(m, options_);
    in_parallel(of_machines_.size(), options_.threads, [&](std::size_t k) {
      const auto it = std::next(of_machines_.begin(), static_cast<std::ptrdiff_t>(k));
      adapt(it->second, it->first);
    });
    in_parallel(each.size(), options_.threads, [&](std::size_t k) {
      const auto& [m, i] = each[k];
      alone_[m][i] = simulate(local_, {stages_.segments[i].steps}, ranks_of(m), of_machines_.at(m));
      times_[m][i] = times_of(stages_.segments[i], alone_[m][i]);
      if (!keeps_any()) alone_[m][i].spans = {};
    });
    for (std::size_t s = 0; s < stages_.order.size(); ++s) {
      if (machine(s) == s) continue;
      for (const std::size_t i : stages_.order[s]) times_[s][i] = times_[machine(s)][i];
    }
  }

  [[nodiscard]] bool keeps_any() const { return options_.keep_spans || !options_.watch.empty(); }

  /// The stage on whose sub-cluster the segments of `stage` are simulated.
  [[nodiscard]] std::size_t machine(std::size_t stage) const { return links_.machine(stage); }

  /// Whether some node has ranks of two stages, which then share its links.
  bool stages_share_nodes() const {
    const std::vector<int>& node = machines_.cluster().node_of_rank;
    for (auto r = static_cast<std::size_t>(program_.ranks_per_stage()); r < node.size();
         r += static_cast<std::size_t>(program_.ranks_per_stage())) {
      if (node[r] == node[r - 1]) return true;
    }
    return false;
  }

  /// A lower bound on the makespan: the time that the busiest link inside a stage needs for all traffic of the stage,
  /// since the composition ignores contention between background traffic that outlasts its segment and the traffic of
  /// the next one. If stages share nodes, the time that the busiest link needs for all stages and their messages.
  SimTime busiest_link() {
    if (shares_nodes_) return slowest(link_bytes(), machines_.cluster().topology);
    SimTime most;
    for (std::size_t s = 0; s < stages_.order.size(); ++s) {
      std::map<std::size_t, double> runs;
      for (const std::size_t i : stages_.order[s]) runs[i] += 1;
      const Topology& topology = machines_.of(count_, static_cast<std::int64_t>(machine(s))).cluster.topology;
      std::vector<double> bytes(topology.links.size(), 0.0);
      for (const auto& [i, times] : runs) {
        for (const LinkUse& use : alone_[machine(s)][i].links) bytes[use.link.index()] += times * use.bytes;
      }
      most = std::max(most, slowest(bytes, topology));
    }
    return most;
  }

  [[nodiscard]] const Cluster& ranks_of(std::size_t stage) const {
    return machines_.of(count_, static_cast<std::int64_t>(stage)).cluster;
  }

  /// Makes options of the whole pipeline those of a stage's segments.
  void adapt(SimulateOptions& options, std::size_t stage) const {
    options.keep_spans = true;
    options.every_link = false;
    options.watch = watched_.by_machine[stage];
    if (!options.use_symmetry) return;
    options.symmetry = simulated_view(local_, ranks_of(stage));
    options.use_symmetry = options.symmetry != nullptr;
  }

  SegmentTimes times_of(const Segment& segment, const Timeline& alone) const {
    SegmentTimes t;
    t.joined = alone.joined_end;
    t.sends.assign(segment.sends.size(), SimTime());
    std::map<RankId, SimTime> busy;
    for (const TimelineSpan& span : alone.spans) {
      const Operation& op = operation_of(span);
      if (op.stream == Stream::Replicas) {
        SimTime& own = busy[span.rank];
        own += SimTime::scaled(span.end - span.start, alone.occurrences(span));
        t.background_busy = std::max(t.background_busy, own);
      }
      if (!std::holds_alternative<Send>(op.work)) continue;
      for (std::size_t i = 0; i < segment.sends.size(); ++i) {
        if (segment.sends[i].block != span.block || segment.sends[i].operation != span.operation) continue;
        t.sends[i] = std::max(t.sends[i], span.start);
      }
    }
    if (t.background_busy > SimTime()) t.background_end = alone.makespan;
    return t;
  }

  const Operation& operation_of(const TimelineSpan& s) const { return program_.operation(s.block, s.operation); }

  /// The spans and the links' bytes, if these are kept, and the histories of watched links.
  void add_records(const ComposedRun& run, Timeline& out) {
    std::vector<double> bytes = no_bytes();
    for (const LinkId link : options_.watch) out.link_history.push_back({link, {}});
    links_.for_each_stage([&](std::size_t stage, const StageLinks::OfStage& own) {
      add_bytes(stage, own, bytes);
      for (std::size_t i = 0; i < run.runs[stage].size(); ++i) {
        const SegmentRun& r = run.runs[stage][i];
        const std::size_t segment = stages_.order[stage][i];
        const std::int32_t repeats = add_repeats(alone_[machine(stage)][segment], r.begin, out);
        if (options_.keep_spans) add_spans(stage, segment, r, repeats, out);
        add_history(stage, segment, r, repeats, own, out);
      }
    });
    if (options_.keep_spans) {
      out.links.reserve(static_cast<std::size_t>(std::ranges::count_if(bytes, [](double b) { return b > 0; })));
      for (std::size_t l = 0; l < bytes.size(); ++l) {
        if (bytes[l] > 0) out.links.push_back({LinkId(l), bytes[l]});
      }
    }
    sort_spans(out.spans);
    for (LinkHistory& h : out.link_history) {
      std::stable_sort(h.segments.begin(), h.segments.end(),
                       [](const LinkSegment& a, const LinkSegment& b) { return a.start < b.start; });
    }
  }

  /// Returns what is to be added to an index of a repeat.
  static std::int32_t add_repeats(const Timeline& alone, SimTime begin, Timeline& out) {
    const auto before = static_cast<std::int32_t>(out.repeats.size());
    for (TimelineRepeat r : alone.repeats) {
      r.start += begin;
      if (r.parent >= 0) r.parent += before;
      out.repeats.push_back(r);
    }
    return before;
  }

  void add_spans(std::size_t stage, std::size_t segment, const SegmentRun& run, std::int32_t repeats,
                 Timeline& out) const {
    const RankId rank(static_cast<std::int32_t>(static_cast<std::int64_t>(stage) * program_.ranks_per_stage()));
    std::size_t sends = 0;
    for (TimelineSpan s : alone_[machine(stage)][segment].spans) {
      if (s.rank != RankId(0)) continue;
      s.rank = rank;
      s.start += run.begin;
      s.end += run.begin;
      const Operation& op = operation_of(s);
      if (std::holds_alternative<Send>(op.work)) std::tie(s.start, s.end) = run.sends[sends++];
      const bool waits = std::holds_alternative<Receive>(op.work) || std::holds_alternative<Wait>(op.work);
      if (s.repeat >= 0) s.repeat += repeats;
      if (waits && s.end == run.begin && run.reached < run.begin) {
        s.start = run.reached;
        s.repeat = -1;  // only its first iteration waits
      }
      out.spans.push_back(s);
    }
  }

  /// What the watched links carry of one execution of a segment, and of its messages.
  void add_history(std::size_t stage, std::size_t segment, const SegmentRun& run, std::int32_t repeats,
                   const StageLinks::OfStage& own, Timeline& out) const {
    const Timeline& alone = alone_[machine(stage)][segment];
    for (const StageLinks::Watched::OfStage& w : watched_.by_stage[stage]) {
      for (LinkSegment s : alone.link_history[w.of_machine].segments) {
        s.start += run.begin;
        s.end += run.begin;
        if (s.repeat >= 0) s.repeat += repeats;
        out.link_history[w.of_cluster].segments.push_back(s);
      }
    }
    const std::vector<StageMessage>& messages = stages_.segments[segment].sends;
    for (std::size_t m = 0; m < messages.size(); ++m) {
      const auto& shares = own.of_messages.at(messages[m].shift);
      for (LinkHistory& h : out.link_history) {
        const auto [start, end] = run.sends[m];
        for (const auto& [link, share] : shares) {
          const double bytes = static_cast<double>(messages[m].bytes) * share;
          if (link == h.link && start < end) h.segments.push_back({start, end, bytes, -1});
        }
      }
    }
  }

  /// Bytes by link of all traffic inside the stages and of the messages between them.
  std::vector<double> link_bytes() {
    std::vector<double> bytes = no_bytes();
    links_.for_each_stage([&](std::size_t s, const StageLinks::OfStage& own) { add_bytes(s, own, bytes); });
    return bytes;
  }

  [[nodiscard]] std::vector<double> no_bytes() const {
    return std::vector<double>(machines_.cluster().topology.links.size(), 0.0);
  }

  void add_bytes(std::size_t stage, const StageLinks::OfStage& own, std::vector<double>& bytes) const {
    std::map<std::size_t, double> runs;
    for (const std::size_t i : stages_.order[stage]) runs[i] += 1;
    for (const auto& [i, times] : runs) {
      const std::size_t on = machine(stage);
      const std::vector<double> inside =
          bytes_of_links(alone_[on][i], ranks_of(on).topology, of_machines_.at(on).symmetry.get());
      for (std::size_t l = 0; l < inside.size(); ++l) {
        if (inside[l] > 0) bytes[own.links[l].index()] += times * inside[l];
      }
      for (const StageMessage& m : stages_.segments[i].sends) {
        for (const auto& [link, share] : own.of_messages.at(m.shift))
          bytes[link.index()] += times * static_cast<double>(m.bytes) * share;
      }
    }
  }

  const Program& program_;
  StageClusters& machines_;
  SimulateOptions options_;
  StageSegments stages_;
  const Program local_;  // of one stage's ranks
  std::int64_t count_;
  bool shares_nodes_;
  StageLinks links_;
  StageLinks::Watched watched_;
  std::map<std::size_t, SimulateOptions> of_machines_;  // by stage on whose sub-cluster segments are simulated
  std::vector<std::vector<Timeline>> alone_;            // by stage and segment
  std::vector<std::vector<SegmentTimes>> times_;
};

}  // namespace

Timeline simulate_stages(const Program& program, StageClusters& machines, const SimulateOptions& options) {
  return StageSimulator(program, machines, options).run();
}

Timeline simulate(const Program& program, StageClusters& machines, const SimulateOptions& options) {
  return program.stages.size() == 1 ? simulate(program, machines.cluster(), options)
                                    : simulate_stages(program, machines, options);
}

}  // namespace moeplan::sim
