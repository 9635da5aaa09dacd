#include "planner/search/layer_search.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "model/base/in_parallel.hpp"
#include "model/costs/codec.hpp"
#include "model/costs/estimate.hpp"
#include "planner/frameworks/supported.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/rounds.hpp"
#include "sim/program/simulate.hpp"

namespace moeplan::planner {

namespace {

/// Only the fixed value if there is one, otherwise all values.
template <class T>
std::vector<T> choices(const std::optional<T>& fixed, std::vector<T> all) {
  return fixed ? std::vector<T>{*fixed} : std::move(all);
}

/// Branch and bound over the strategies of a layer.
class RunSearch {
 public:
  RunSearch(const std::vector<LayerStrategy>& runs, const LayerProblem& layer, std::size_t count, int threads)
      : runs_(runs),
        layer_(layer),
        machines_(layer.cluster),
        count_(count),
        threads_(threads),
        variants_(runs.size()) {}

  FastestStrategies run() {
    std::vector<std::size_t> leaders, others;
    find_leaders();
    for (std::size_t i = 0; i < runs_.size(); ++i) (variants_[i].leader == i ? leaders : others).push_back(i);
    estimate_all(leaders);
    simulate_all(leaders);
    std::erase_if(others, [&](std::size_t i) { return is_beaten(variants_[variants_[i].leader].bound); });
    estimate_all(others);
    simulate_all(others);
    count_undecided();
    return std::move(result_);
  }

 private:
  struct Variant {
    std::size_t leader = 0;      // the same strategy with codecs that are never slower
    Seconds bound, closed_form;  // of a costly one zero
    bool is_costly = false;      // ranks differ and are many
  };

  void find_leaders() {
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      LayerStrategy leading = runs_[i];
      leading.codec = {swiftest(leading.codec.dispatch), swiftest(leading.codec.combine)};
      variants_[i].leader = i;
      if (leading == runs_[i]) continue;
      const auto at = std::find(runs_.begin(), runs_.end(), leading);
      if (at != runs_.end()) variants_[i].leader = static_cast<std::size_t>(at - runs_.begin());
    }
  }

  /// Replaces the format by allowed ones that are never slower, as long as there is one.
  std::optional<WireFormat> swiftest(std::optional<WireFormat> format) const {
    if (!format) return format;
    for (const WireFormat other : layer_.workload.codecs.allowed) {
      if (codec_infeasibility(other, layer_.workload, layer_.hidden_size)) continue;
      if (never_slower(other, *format, layer_.workload, layer_.cluster.gpu, layer_.hidden_size)) format = other;
    }
    return format;
  }

  Program lowered(std::size_t i) const {
    return lower_moe_layer(layer_.moe, layer_.hidden_size, layer_.tokens, layer_.workload,
                           runs_[i].in(layer_.candidate), layer_.cluster.ranks_per_node(), /*moves_copies=*/true,
                           layer_.kind);
  }

  void estimate_all(const std::vector<std::size_t>& which) {
    in_parallel(which.size(), threads_, [&](std::size_t k) {
      Variant& variant = variants_[which[k]];
      const Program program = lowered(which[k]);
      variant.is_costly =
          program.world_size >= layer_.asymmetric_rank_threshold && has_asymmetric_ranks(program, machines_);
      if (variant.is_costly) return;
      const Estimate e = estimate(program, machines_);
      variant.bound = e.lower_bound;
      variant.closed_form = e.closed_form;
    });
    result_.estimated += std::ssize(which);
  }

  /// Simulates strategies in rounds, least closed form first, until bounds exclude the rest.
  void simulate_all(std::vector<std::size_t> waiting) {
    std::erase_if(waiting, [&](std::size_t i) { return variants_[i].is_costly; });
    std::stable_sort(waiting.begin(), waiting.end(),
                     [&](std::size_t a, std::size_t b) { return variants_[a].closed_form < variants_[b].closed_form; });
    in_rounds(
        std::move(waiting), kAllItems, [&](std::size_t i) { return is_beaten(variants_[i].bound); },
        [&](std::span<const std::size_t> items) {
          std::vector<SimTime> times(items.size());
          in_parallel(items.size(), threads_, [&](std::size_t k) {
            times[k] = sim::simulate(lowered(items[k]), layer_.cluster, {.keep_spans = false}).makespan;
          });
          for (std::size_t k = 0; k < items.size(); ++k) keep(items[k], times[k]);
          result_.simulated += std::ssize(items);
        });
  }

  /// Counts the strategies too costly to simulate that may be among the fastest: those whose bound is not beaten.
  void count_undecided() {
    std::vector<std::size_t> costly;
    for (std::size_t i = 0; i < variants_.size(); ++i) {
      if (variants_[i].is_costly) costly.push_back(i);
    }
    if (order_.size() == count_) {
      in_parallel(costly.size(), threads_, [&](std::size_t k) {
        variants_[costly[k]].bound = bound_by_first_rank(lowered(costly[k]), machines_);
      });
      std::erase_if(costly, [&](std::size_t i) { return is_beaten(variants_[i].bound); });
    }
    result_.undecided += std::ssize(costly);
  }

  /// Inserts the strategy into the fastest so far if it belongs there.
  void keep(std::size_t i, SimTime time) {
    const std::pair key{time, i};
    const auto at = std::upper_bound(order_.begin(), order_.end(), key);
    result_.fastest.insert(result_.fastest.begin() + (at - order_.begin()), {runs_[i], time});
    order_.insert(at, key);
    if (order_.size() <= count_) return;
    order_.pop_back();
    result_.fastest.pop_back();
  }

  /// Bounds are summed in a different order than in the simulator; the tolerance covers a difference of about a
  /// picosecond per operation.
  bool is_beaten(Seconds bound) const {
    return order_.size() == count_ && bound > order_.back().first.seconds() * (1 + 1e-9);
  }

  const std::vector<LayerStrategy>& runs_;
  const LayerProblem& layer_;
  StageClusters machines_;
  std::size_t count_;
  int threads_;
  std::vector<Variant> variants_;                       // by strategy
  std::vector<std::pair<SimTime, std::size_t>> order_;  // keys of the fastest
  FastestStrategies result_;
};

}  // namespace

LayerProblem layer_problem(const ModelSpec& model, const Workload& workload, const Moe& moe, const Candidate& stage,
                           const Cluster& cluster, std::int64_t asymmetric_rank_threshold, std::size_t kind) {
  return {.moe = moe,
          .hidden_size = moe.row_columns(model.hidden_size),
          .tokens = stage.micro_batch * workload.sequence_length / stage.degrees.cp,
          .workload = workload,
          .candidate = stage,
          .cluster = cluster,
          .asymmetric_rank_threshold = asymmetric_rank_threshold,
          .kind = kind};
}

std::vector<LayerStrategy> layer_strategies(std::int64_t hidden_size, const Workload& workload,
                                            const Candidate& candidate, std::int64_t ranks_per_node,
                                            const LayerSpace& space) {
  const auto references = [](const auto& built_ins) {
    std::vector<BuiltIn<std::remove_cvref_t<decltype(*built_ins.front())>>> all;
    for (const auto& entry : built_ins) all.emplace_back(*entry);
    return all;
  };
  Degrees of_layer = candidate.degrees;
  if (candidate.sequence_parallel) of_layer.tp = 1;
  std::vector<LayerStrategy> runs;
  for (const BuiltIn<Schedule>& schedule : choices(space.schedule, references(schedules_for(of_layer.esp)))) {
    const auto degrees = choices(space.pipeline_degree, schedule->pipeline_degrees(of_layer, ranks_per_node));
    for (const BuiltIn<AllToAll>& all_to_all : choices(space.all_to_all, references(searched_all_to_alls()))) {
      for (const CodecPair& codec : choices(space.codec, codec_pairs(workload))) {
        for (const std::int64_t degree : degrees) {
          const LayerStrategy run{schedule, all_to_all, degree, codec};
          const Candidate c = run.in(candidate);
          if (space.framework && unsupported(*space.framework, c, ranks_per_node)) continue;
          if (layer_infeasibility(hidden_size, workload, c, ranks_per_node)) continue;
          if (space.schedule || schedule->same_as(of_layer, c, workload.mode).empty()) runs.push_back(run);
        }
      }
    }
  }
  return runs;
}

std::vector<PricedStrategy> priced_strategies(const std::vector<LayerStrategy>& runs, const Moe& moe,
                                              std::int64_t hidden_size, std::int64_t tokens, const Workload& workload,
                                              const Candidate& candidate, const Cluster& cluster, int threads) {
  std::vector<PricedStrategy> priced;
  for (const LayerStrategy& run : runs) priced.push_back({run, {}});
  in_parallel(runs.size(), threads, [&](std::size_t i) {
    const Program program =
        lower_moe_layer(moe, hidden_size, tokens, workload, runs[i].in(candidate), cluster.ranks_per_node());
    priced[i].time = sim::simulate(program, cluster, {.keep_spans = false}).makespan;
  });
  std::stable_sort(priced.begin(), priced.end(),
                   [](const PricedStrategy& a, const PricedStrategy& b) { return a.time < b.time; });
  return priced;
}

FastestStrategies fastest_strategies(const std::vector<LayerStrategy>& runs, const LayerProblem& layer,
                                     std::size_t count, int threads) {
  return RunSearch(runs, layer, count, threads).run();
}

}  // namespace moeplan::planner
