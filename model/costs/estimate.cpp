#include "model/costs/estimate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "model/costs/block_price.hpp"
#include "model/program/compose_stages.hpp"
#include "model/program/equal_ranks.hpp"

namespace moeplan {

namespace {

/// What all runs of the blocks of one sequence come to.
struct Totals {
  std::vector<double> path;     // by rank: sum of the blocks' chains, each operation timed alone
  std::vector<double> compute;  // by rank and stream
  std::vector<double> link_seconds;

  void add(const BlockPrice& p, double times) {
    const auto sum = [&](std::vector<double>& into, const std::vector<double>& from) {
      into.resize(std::max(into.size(), from.size()), 0.0);
      for (std::size_t i = 0; i < from.size(); ++i) into[i] += times * from[i];
    };
    sum(path, p.alone);
    sum(compute, p.compute);
    sum(link_seconds, p.link_seconds);
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

/// The ends of the streams after a sequence, from those after each of its blocks.
template <class OfBlock>
StreamEnds stream_ends(const Sequence& sequence, const OfBlock& of_block) {
  StreamEnds ends;
  for (const Step& step : sequence) {
    if (step.is_block()) {
      ends = ends.then(of_block(step.block));
    } else if (step.count > 0) {
      ends = ends.then(stream_ends(step.body, of_block).repeated(step.count));
    }
  }
  return ends;
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
      if (first == s)
        pricers_.push_back(
            std::make_unique<BlockPricer>(local_, machines.of(count_, s).cluster, ranks, &machines.prices()));
      of_stage_.push_back(first == s ? pricers_.back().get() : of_stage_[static_cast<std::size_t>(first)]);
    }
  }

  BlockPricer& prices(std::size_t stage) { return *of_stage_[stage % of_stage_.size()]; }

  PipelineEstimate of(const std::vector<Sequence>& sequences) {
    PipelineEstimate e{};
    std::string busiest;
    std::vector<std::vector<double>> paths;
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      Totals t = totals(sequences[s], program_.blocks.size(), prices(s));
      add_bounds(t, prices(s), machines_.cluster().ranks_per_gpu, e, busiest);
      paths.push_back(std::move(t.path));
    }
    const StageSegments stages = stage_segments(program_, sequences);
    e.closed_form = composed(stages, Together{});
    for (const std::size_t rank : busy_ranks(paths)) {
      const Seconds path = e.paths[rank] = composed(stages, Alone{rank});
      e.critical_path = std::max(e.critical_path, path);
    }
    finish(e, busiest);
    return e;
  }

 private:
  /// The rank with the longest chain of all stages, the one whose chains on all stages are the longest together, and
  /// the first. `paths` are the chains by stage and rank; some may be those of representatives.
  static std::set<std::size_t> busy_ranks(const std::vector<std::vector<double>>& paths) {
    std::size_t ranks = 1;
    for (const std::vector<double>& path : paths) ranks = std::max(ranks, path.size());
    std::vector<double> longest(ranks, 0.0), sums(ranks, 0.0);
    for (const std::vector<double>& path : paths) {
      for (std::size_t r = 0; r < ranks; ++r) {
        longest[r] = std::max(longest[r], path[r % path.size()]);
        sums[r] += path[r % path.size()];
      }
    }
    const auto most = [](const std::vector<double>& of_ranks) {
      return static_cast<std::size_t>(std::max_element(of_ranks.begin(), of_ranks.end()) - of_ranks.begin());
    };
    return {most(longest), most(sums), 0};
  }

  /// Times of operations alone, on the ranks at one position in their stages: any choice gives a lower bound.
  struct Alone {
    std::size_t rank;

    [[nodiscard]] const StreamEnds& ends(const BlockPrice& p) const { return p.ends[rank % p.ends.size()]; }
    [[nodiscard]] const auto& sends(const BlockPrice& p) const { return p.sends_alone; }
    [[nodiscard]] Seconds transfer(const StageTransfer& t, std::int64_t bytes) const { return t.alone(bytes); }
    [[nodiscard]] SimTime whole(Seconds t) const { return SimTime(static_cast<std::int64_t>(t.value() * 1e12)); }
  };
  /// Times of the slowest rank, with all groups at once.
  struct Together {
    [[nodiscard]] const StreamEnds& ends(const BlockPrice& p) const { return p.ends_together; }
    [[nodiscard]] const auto& sends(const BlockPrice& p) const { return p.sends_together; }
    [[nodiscard]] Seconds transfer(const StageTransfer& t, std::int64_t bytes) const { return t.together(bytes); }
    [[nodiscard]] SimTime whole(Seconds t) const { return SimTime::from_seconds(t); }
  };

  /// The makespan of the stages' segments.
  template <class Times>
  Seconds composed(const StageSegments& stages, const Times& of) {
    std::vector<std::vector<SegmentTimes>> times(stages.order.size());
    for (std::size_t s = 0; s < times.size(); ++s) {
      times[s].resize(stages.segments.size());
      std::vector<bool> is_priced(stages.segments.size(), false);
      for (const std::size_t i : stages.order[s]) {
        if (!is_priced[i]) times[s][i] = segment_times(stages.segments[i], prices(s), of);
        is_priced[i] = true;
      }
    }
    const auto transfer = [&](std::size_t stage, const StageMessage& m) {
      const auto to = static_cast<std::int64_t>(stages.shifted(stage, m.shift));
      return of.whole(of.transfer(machines_.transfer(count_, static_cast<std::int64_t>(stage), to), m.bytes));
    };
    return compose_stages(stages, times, transfer).makespan.seconds();
  }

  template <class Times>
  static SegmentTimes segment_times(const Segment& segment, BlockPricer& pricer, const Times& of) {
    SegmentTimes t;
    StreamEnds ends;
    for (const Step& step : segment.steps) {
      if (step.is_block()) {
        for (const auto& [operation, reached] : of.sends(pricer.price(step.block)))
          t.sends.push_back(of.whole(Seconds(ends.joined + reached)));
      }
      ends = ends.then(stream_ends({step}, [&](BlockId b) { return of.ends(pricer.price(b)); }));
    }
    assert(t.sends.size() == segment.sends.size() && "a Send is not repeated within a segment");
    t.joined = of.whole(Seconds(ends.joined));
    t.background_busy = of.whole(Seconds(ends.replicas));
    t.background_end = of.whole(Seconds(std::max(0.0, ends.replicas_after_joined)));
    return t;
  }

  const Program& program_;
  const Program local_;
  std::int64_t count_;
  StageClusters& machines_;
  std::vector<std::unique_ptr<BlockPricer>> pricers_;
  std::vector<BlockPricer*> of_stage_;  // by stage modulo the period
};

PipelineEstimates::PipelineEstimates(const Program& program, StageClusters& machines, PricedRanks ranks)
    : state_(std::make_unique<State>(program, machines, ranks)) {}
PipelineEstimates::~PipelineEstimates() = default;
PipelineEstimate PipelineEstimates::of(const std::vector<Sequence>& stages) { return state_->of(stages); }
BlockPricer& PipelineEstimates::prices(std::size_t stage) { return state_->prices(stage); }

namespace {

Estimate estimate_of_one_stage(const Program& program, StageClusters& machines, PricedRanks ranks) {
  const Cluster& cluster = machines.cluster();
  BlockPricer pricer(program, cluster, ranks, &machines.prices());
  const Totals t = totals(program.stages.front(), program.blocks.size(), pricer);
  Estimate e{};
  std::string busiest;
  add_bounds(t, pricer, cluster.ranks_per_gpu, e, busiest);
  const Sequence& sequence = program.stages.front();
  const StreamEnds together = stream_ends(sequence, [&](BlockId b) { return pricer.price(b).ends_together; });
  e.closed_form = Seconds(together.longest());
  for (std::size_t r = 0; r < pricer.ranks(); ++r) {
    const StreamEnds alone = stream_ends(sequence, [&](BlockId b) { return pricer.price(b).ends[r]; });
    e.critical_path = std::max(e.critical_path, Seconds(alone.longest()));
  }
  finish(e, busiest);
  return e;
}

Estimate estimate_of(const Program& program, StageClusters& machines, PricedRanks ranks) {
  if (program.stages.size() == 1) return estimate_of_one_stage(program, machines, ranks);
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
