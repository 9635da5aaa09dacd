#include "sim/program/simulate_stages.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "model/program/compose_stages.hpp"
#include "sim/flows/rank_classes.hpp"

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
        period_(period()),
        machines_of_(equivalent_machines()),
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
    if (options_.keep_spans) {
      const std::vector<double> bytes = link_bytes();
      for (std::size_t l = 0; l < bytes.size(); ++l) {
        if (bytes[l] > 0) out.links.push_back({LinkId(l), bytes[l]});
      }
      for (std::size_t s = 0; s < run.runs.size(); ++s) add_spans(s, run.runs[s], out);
      sort_spans(out.spans);
    }
    return out;
  }

 private:
  void simulate_segments() {
    std::vector<std::vector<bool>> known(alone_.size(), std::vector<bool>(stages_.segments.size(), false));
    for (std::size_t s = 0; s < stages_.order.size(); ++s) {
      const std::size_t m = machine(s);
      for (const std::size_t i : stages_.order[s]) {
        if (!known[m][i]) {
          alone_[m][i] = simulate_segment(m, i);
          times_[m][i] = times_of(stages_.segments[i], alone_[m][i]);
          known[m][i] = true;
        }
        if (m != s) times_[s][i] = times_[m][i];
      }
    }
  }

  /// The period of equivalent stages; the number of stages if it is not known which links of two of them correspond,
  /// but the traffic on them is needed.
  std::int64_t period() const {
    const std::int64_t period = machines_.period(count_);
    if (!options_.keep_spans && !shares_nodes_) return period;
    return period == count_ || shifted_links(machines_.cluster(), period * program_.ranks_per_stage()) ? period
                                                                                                       : count_;
  }

  std::vector<std::size_t> equivalent_machines() const {
    std::vector<std::size_t> out;
    for (std::int64_t s = 0; s < period_; ++s)
      out.push_back(static_cast<std::size_t>(machines_.equivalent(count_, s).stage));
    return out;
  }

  /// The stage on whose sub-cluster the segments of `stage` are simulated: the first one that is equivalent.
  std::size_t machine(std::size_t stage) const { return machines_of_[stage % machines_of_.size()]; }

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

  Timeline simulate_segment(std::size_t stage, std::size_t segment) {
    SimulateOptions options = options_;
    options.keep_spans = true;
    local_.stages = {stages_.segments[segment].steps};
    const Cluster& ranks = machines_.of(count_, static_cast<std::int64_t>(stage)).cluster;
    if (options.use_symmetry) {
      auto [it, is_new] = views_.try_emplace(stage);
      if (is_new) it->second = simulated_view(local_, ranks);
      options.symmetry = it->second;
      options.use_symmetry = options.symmetry != nullptr;
    }
    return simulate(local_, ranks, options);
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

  void add_spans(std::size_t stage, const std::vector<SegmentRun>& runs, Timeline& out) const {
    const RankId rank(static_cast<std::int32_t>(static_cast<std::int64_t>(stage) * program_.ranks_per_stage()));
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const std::size_t index = stages_.order[stage][i];
      std::size_t sends = 0;
      const Timeline& alone = alone_[machine(stage)][index];
      const auto repeats = static_cast<std::int32_t>(out.repeats.size());
      for (TimelineRepeat r : alone.repeats) {
        r.start += runs[i].begin;
        if (r.parent >= 0) r.parent += repeats;
        out.repeats.push_back(r);
      }
      for (TimelineSpan s : alone.spans) {
        if (s.rank != RankId(0)) continue;
        s.rank = rank;
        s.start += runs[i].begin;
        s.end += runs[i].begin;
        const Operation& op = operation_of(s);
        if (std::holds_alternative<Send>(op.work)) std::tie(s.start, s.end) = runs[i].sends[sends++];
        const bool waits = std::holds_alternative<Receive>(op.work) || std::holds_alternative<Wait>(op.work);
        if (s.repeat >= 0) s.repeat += repeats;
        if (waits && s.end == runs[i].begin && runs[i].reached < runs[i].begin) {
          s.start = runs[i].reached;
          s.repeat = -1;  // only its first iteration waits
        }
        out.spans.push_back(s);
      }
    }
  }

  /// Bytes by link of all traffic inside the stages and of the messages between them.
  std::vector<double> link_bytes() {
    std::vector<double> bytes(machines_.cluster().topology.links.size(), 0.0);
    std::vector<OfStage> last;  // of the last stages so far, modulo the period
    for (std::size_t s = 0; s < stages_.order.size(); ++s) {
      if (s < machines_of_.size()) {
        last.push_back({links_of(s), {}});
      } else {
        shift(last[s % last.size()]);
      }
      OfStage& own = last[s % last.size()];
      std::map<std::size_t, double> runs;
      for (const std::size_t i : stages_.order[s]) runs[i] += 1;
      for (const auto& [i, times] : runs) {
        for (const LinkUse& use : alone_[machine(s)][i].links)
          bytes[own.links[use.link.index()].index()] += times * use.bytes;
        for (const StageMessage& m : stages_.segments[i].sends) {
          auto& shares = own.of_messages[m.shift];
          if (shares.empty()) shares = shares_of_message(s, m.shift);
          for (const auto& [link, share] : shares) bytes[link.index()] += times * static_cast<double>(m.bytes) * share;
        }
      }
    }
    return bytes;
  }

  /// The links of a stage in the whole cluster.
  struct OfStage {
    std::vector<LinkId> links;  // by LinkId in its machine
    /// By the number of stages that a message moves: the parts of it that all ranks together send over each link.
    std::map<std::int64_t, std::vector<std::pair<LinkId, double>>> of_messages;
  };

  /// Moves to the stage that is one period after this one.
  void shift(OfStage& stage) const {
    const auto& image = *shifted_links(machines_.cluster(), period_ * program_.ranks_per_stage());
    for (LinkId& link : stage.links) link = link.value() < 0 ? link : LinkId(image[link.index()]);
    for (auto& [shift, shares] : stage.of_messages) {
      for (auto& [link, share] : shares) link = LinkId(image[link.index()]);
    }
  }

  /// The links of one of the first stages in the whole cluster, by LinkId in the sub-cluster of machine(stage).
  std::vector<LinkId> links_of(std::size_t stage) const {
    const auto s = static_cast<std::int64_t>(stage);
    const std::vector<LinkId>& own = machines_.of(count_, s).links;
    if (machine(stage) == stage) return own;
    std::vector<LinkId> out = machines_.equivalent(count_, s).links;
    for (LinkId& link : out) link = link.value() < 0 ? link : own[link.index()];
    return out;
  }

  std::vector<std::pair<LinkId, double>> shares_of_message(std::size_t stage, std::int64_t shift) const {
    const auto from = static_cast<std::int64_t>(stage);
    const auto to = static_cast<std::int64_t>(stages_.shifted(stage, shift));
    if (from == to) return {};
    std::map<LinkId, double> shares;
    const std::int64_t ranks = program_.ranks_per_stage();
    for (std::int64_t i = 0; i < ranks; ++i) {
      const Route route = machines_.cluster().route(RankId(static_cast<std::int32_t>(from * ranks + i)),
                                                    RankId(static_cast<std::int32_t>(to * ranks + i)));
      for (const RouteLink& l : route.links) shares[l.link] += l.share;
    }
    return {shares.begin(), shares.end()};
  }

  const Program& program_;
  StageClusters& machines_;
  SimulateOptions options_;
  StageSegments stages_;
  Program local_;  // of one stage's ranks, with the sequence of the segment that is simulated
  std::int64_t count_;
  bool shares_nodes_;
  std::int64_t period_;                   // a segment takes the same time on stages that are equal modulo this
  std::vector<std::size_t> machines_of_;  // machine() of the stages below the period
  std::map<std::size_t, std::shared_ptr<const SymmetricView>> views_;  // simulated_view(), by stage
  std::vector<std::vector<Timeline>> alone_;                           // by stage and segment
  std::vector<std::vector<SegmentTimes>> times_;
};

}  // namespace

Timeline simulate_stages(const Program& program, StageClusters& machines, const SimulateOptions& options) {
  return StageSimulator(program, machines, options).run();
}

}  // namespace moeplan::sim
