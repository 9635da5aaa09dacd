#include "model/costs/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "model/costs/block_price.hpp"
#include "model/program/compose_stages.hpp"
#include "model/program/equal_ranks.hpp"

namespace moeplan {

namespace {

/// What all runs of the blocks of one sequence come to.
struct Totals {
  std::vector<double> path;        // by rank: sum of the blocks' chains, each operation timed alone
  std::vector<double> background;  // by rank
  std::vector<double> compute;     // by rank and stream
  std::vector<double> link_seconds;
  double together = 0;
  double background_together = 0;

  void add(const BlockPrice& p, double times) {
    const auto sum = [&](std::vector<double>& into, const std::vector<double>& from) {
      into.resize(std::max(into.size(), from.size()), 0.0);
      for (std::size_t i = 0; i < from.size(); ++i) into[i] += times * from[i];
    };
    sum(path, p.alone);
    sum(background, p.background);
    sum(compute, p.compute);
    sum(link_seconds, p.link_seconds);
    together += times * p.together;
    background_together += times * p.background_together;
  }
};

Totals totals(const Sequence& sequence, std::size_t blocks, BlockPricer& pricer) {
  const std::vector<std::int64_t> counts = block_counts(sequence, blocks);
  Totals t;
  for (std::size_t b = 0; b < blocks; ++b) {
    if (counts[b] > 0) t.add(pricer.price(BlockId(b)), static_cast<double>(counts[b]));
  }
  return t;
}

/// The maximum over GPUs of the time that the busiest streams of their ranks need: while several ranks compute, each of
/// their streams gets an equal part of the GPU.
double busiest_gpu(const std::vector<double>& compute, std::int64_t ranks_per_gpu) {
  const auto shared_by = static_cast<std::size_t>(ranks_per_gpu);
  double most = 0, sum = 0;
  for (std::size_t r = 0; r < compute.size() / kStreams; ++r) {
    if (r % shared_by == 0) sum = 0;
    const auto first = compute.begin() + static_cast<std::ptrdiff_t>(r * kStreams);
    sum += *std::max_element(first, first + static_cast<std::ptrdiff_t>(kStreams));
    most = std::max(most, sum);
  }
  return most;
}

/// The estimate so far, from the work of one stage (or of all).
void add_bounds(const Totals& t, const BlockPricer& pricer, std::int64_t ranks_per_gpu, Estimate& e,
                std::string& busiest) {
  e.compute = std::max(e.compute, Seconds(busiest_gpu(t.compute, ranks_per_gpu)));
  const auto link = std::max_element(t.link_seconds.begin(), t.link_seconds.end());
  if (link == t.link_seconds.end() || Seconds(*link) <= e.links) return;
  e.links = Seconds(*link);
  busiest = pricer.link_name(static_cast<std::size_t>(link - t.link_seconds.begin()));
}

void finish(Estimate& e, const std::string& busiest) {
  e.lower_bound = std::max({e.critical_path, e.compute, e.links});
  if (e.lower_bound == e.compute) {
    e.bound_by = "compute";
  } else if (e.lower_bound == e.critical_path) {
    e.bound_by = "critical path";
  } else {
    e.bound_by = "link " + busiest;
  }
}

}  // namespace

/// Prices the segments of pipelines and composes them.
class PipelineEstimates::State {
 public:
  State(const Program& program, StageClusters& machines, PricedRanks ranks)
      : program_(program), local_(stage_program(program)), count_(std::ssize(program.stages)), machines_(machines) {
    const std::int64_t period = machines.period(count_);
    for (std::int64_t s = 0; s < period; ++s) {
      const std::int64_t first = ranks == PricedRanks::All ? machines.equivalent(count_, s).stage : s;
      if (first == s) pricers_.push_back(std::make_unique<BlockPricer>(local_, machines.of(count_, s).cluster, ranks));
      of_stage_.push_back(first == s ? pricers_.back().get() : of_stage_[static_cast<std::size_t>(first)]);
    }
  }

  BlockPricer& prices(std::size_t stage) { return *of_stage_[stage % of_stage_.size()]; }

  Estimate of(const std::vector<Sequence>& sequences) {
    Estimate e{};
    std::string busiest;
    most_path_ = 0;
    rank_ = 0;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      const Totals t = totals(sequences[s], program_.blocks.size(), prices(s));
      add_bounds(t, prices(s), machines_.cluster().ranks_per_gpu, e, busiest);
      // The busiest rank's chain of segments, with the ranks at its position in the other stages: any choice gives a
      // lower bound.
      const auto rank = static_cast<std::size_t>(std::max_element(t.path.begin(), t.path.end()) - t.path.begin());
      if (t.path.size() > 1 && (s == 0 || t.path[rank] > most_path_)) {
        rank_ = rank;
        most_path_ = t.path[rank];
      }
    }
    const StageSegments stages = stage_segments(program_, sequences);
    std::vector<std::vector<SegmentTimes>> times_alone(sequences.size()), times_together(sequences.size());
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      times_alone[s].resize(stages.segments.size());
      times_together[s].resize(stages.segments.size());
      for (const std::size_t i : stages.order[s]) {
        SegmentTimes& together = times_together[s][i];
        if (together.joined == SimTime()) price_segment(stages.segments[i], prices(s), times_alone[s][i], together);
      }
    }
    const auto together = [&](std::size_t stage, const StageMessage& m) {
      return SimTime::from_seconds(transfer(stages, stage, m).together(m.bytes));
    };
    const auto alone = [&](std::size_t stage, const StageMessage& m) {
      return rounded_down(transfer(stages, stage, m).alone(m.bytes));
    };
    e.closed_form = compose_stages(stages, times_together, together).makespan.seconds();
    e.critical_path = compose_stages(stages, times_alone, alone).makespan.seconds();
    finish(e, busiest);
    return e;
  }

 private:
  static SimTime rounded_down(Seconds t) { return SimTime(static_cast<std::int64_t>(t.value() * 1e12)); }

  StageTransfer transfer(const StageSegments& stages, std::size_t stage, const StageMessage& m) {
    return machines_.transfer(count_, static_cast<std::int64_t>(stage),
                              static_cast<std::int64_t>(stages.shifted(stage, m.shift)));
  }

  /// Sums over the steps of a segment, in seconds.
  struct Sums {
    double path = 0, both = 0, background = 0, background_together = 0, last_background = 0;
  };

  void price_segment(const Segment& segment, BlockPricer& pricer, SegmentTimes& alone, SegmentTimes& together) {
    alone.sends.assign(segment.sends.size(), SimTime());
    together.sends.assign(segment.sends.size(), SimTime());
    Sums sums;
    std::size_t sends = 0;
    const auto add = [&](const std::vector<double>& path, const std::vector<double>& background, double both,
                         double background_together) {
      const std::size_t rank = rank_ % path.size();  // prices may be those of representatives
      sums.path += path[rank];
      sums.background += background[rank];
      sums.both += both;
      sums.background_together += background_together;
      sums.last_background = background_together;
    };
    for (const Step& step : segment.steps) {
      if (!step.is_block()) {
        const Totals t = totals({step}, local_.blocks.size(), pricer);
        add(t.path, t.background, t.together, t.background_together);
        sums.last_background /= static_cast<double>(step.count);
        continue;
      }
      const BlockPrice& p = pricer.price(step.block);
      for (std::size_t i = 0; i < p.sends_alone.size(); ++i, ++sends) {
        alone.sends[sends] = rounded_down(Seconds(sums.path + p.sends_alone[i].second));
        together.sends[sends] = SimTime::from_seconds(Seconds(sums.both + p.sends_together[i].second));
      }
      add(p.alone, p.background, p.together, p.background_together);
    }
    alone.joined = rounded_down(Seconds(sums.path));
    alone.background_busy = alone.background_end = rounded_down(Seconds(sums.background));
    together.joined = SimTime::from_seconds(Seconds(sums.both));
    together.background_busy = SimTime::from_seconds(Seconds(sums.background_together));
    // Gradients are available at the end of a block: the last block's are reduced after it.
    together.background_end =
        SimTime::from_seconds(Seconds(std::max(sums.background_together, sums.both + sums.last_background)));
  }

  const Program& program_;
  const Program local_;
  std::int64_t count_;
  StageClusters& machines_;
  std::vector<std::unique_ptr<BlockPricer>> pricers_;
  std::vector<BlockPricer*> of_stage_;  // by stage modulo the period
  std::size_t rank_ = 0;
  double most_path_ = 0;
};

PipelineEstimates::PipelineEstimates(const Program& program, StageClusters& machines, PricedRanks ranks)
    : state_(std::make_unique<State>(program, machines, ranks)) {}
PipelineEstimates::~PipelineEstimates() = default;
Estimate PipelineEstimates::of(const std::vector<Sequence>& stages) { return state_->of(stages); }
BlockPricer& PipelineEstimates::prices(std::size_t stage) { return state_->prices(stage); }

namespace {

/// The ends of the streams after a sequence, by rank, and at the end those of all ranks together.
std::vector<StreamEnds> stream_ends(const Sequence& sequence, BlockPricer& pricer) {
  std::vector<StreamEnds> ends(pricer.ranks() + 1);
  for (const Step& step : sequence) {
    if (step.is_block()) {
      const BlockPrice& p = pricer.price(step.block);
      for (std::size_t r = 0; r < p.ends.size(); ++r) ends[r] = ends[r].then(p.ends[r]);
      ends.back() = ends.back().then(p.ends_together);
    } else if (step.count > 0) {
      const std::vector<StreamEnds> body = stream_ends(step.body, pricer);
      for (std::size_t r = 0; r < ends.size(); ++r) ends[r] = ends[r].then(body[r].repeated(step.count));
    }
  }
  return ends;
}

Estimate estimate_of_one_stage(const Program& program, const Cluster& cluster, PricedRanks ranks) {
  BlockPricer pricer(program, cluster, ranks);
  const Totals t = totals(program.stages.front(), program.blocks.size(), pricer);
  Estimate e{};
  std::string busiest;
  add_bounds(t, pricer, cluster.ranks_per_gpu, e, busiest);
  std::vector<StreamEnds> ends = stream_ends(program.stages.front(), pricer);
  e.closed_form = Seconds(ends.back().longest());
  ends.pop_back();
  for (const StreamEnds& of_rank : ends) e.critical_path = std::max(e.critical_path, Seconds(of_rank.longest()));
  finish(e, busiest);
  return e;
}

Estimate estimate_of(const Program& program, StageClusters& machines, PricedRanks ranks) {
  if (program.stages.size() == 1) return estimate_of_one_stage(program, machines.cluster(), ranks);
  return PipelineEstimates(program, machines, ranks).of(program.stages);
}

}  // namespace

Estimate estimate(const Program& program, const Cluster& cluster) {
  StageClusters machines(cluster);
  return estimate(program, machines);
}

Estimate estimate(const Program& program, StageClusters& machines) {
  return estimate_of(program, machines, PricedRanks::All);
}

Seconds bound_by_first_rank(const Program& program, StageClusters& machines) {
  return estimate_of(program, machines, PricedRanks::First).lower_bound;
}

bool has_asymmetric_ranks(const Program& program, StageClusters& machines) {
  const auto stages = std::ssize(program.stages);
  if (stages == 1) return program.world_size > 1 && representatives_view(program, machines.cluster()) == nullptr;
  return program.ranks_per_stage() > 1 &&
         representatives_view(stage_program(program), machines.of(stages, 0).cluster) == nullptr;
}

}  // namespace moeplan
