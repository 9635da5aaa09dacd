#include "planner/search/search.hpp"

#include <algorithm>
#include <thread>
#include <tuple>
#include <utility>

#include "model/base/in_parallel.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/evaluation/long_pipeline.hpp"
#include "planner/evaluation/prediction.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/global_bound.hpp"
#include "planner/search/layer_search.hpp"
#include "planner/search/strategies_by_kind.hpp"

namespace moeplan::planner {

namespace {

constexpr std::size_t kRound = 8;  // candidates simulated between two prunings

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d != n / d) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

bool allowed(const std::optional<std::int64_t>& fixed, std::int64_t value) { return !fixed || *fixed == value; }

class Search {
 public:
  Search(const ModelSpec& model, const Workload& workload, const Cluster& cluster, const SearchSpace& space,
         const std::function<void(std::int64_t, std::int64_t)>& progress)
      : model_(model),
        workload_(workload),
        cluster_(cluster),
        machines_(cluster),
        space_(space),
        progress_(progress),
        ranks_per_node_(cluster.ranks_per_node()) {
    threads_ = space.threads > 0 ? space.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }

  SearchResult run() {
    enumerate();
    evaluate_all();
    if (result_.ranked.empty()) return std::move(result_);
    refine();
    vary_layers();
    sort_by_closed_form();
    simulate_best();
    evaluate_deferred();
    vary_kinds();
    result_.global_bound = global_bound(model_, workload_, cluster_, space_, result_.ranked, unequal_, threads_);
    sort_by_makespan(result_.ranked);
    search_orders();
    sort_by_makespan(result_.ranked);
    return std::move(result_);
  }

 private:
  std::int64_t gpus_per_node() const {
    std::int64_t most = 0;
    std::map<int, std::int64_t> counts;
    for (const int node : cluster_.node_of_rank) most = std::max(most, ++counts[node]);
    return most;
  }

  void enumerate() {
    const std::int64_t world = cluster_.world_size(), node = gpus_per_node();
    for (const std::int64_t pp : divisors(world)) {
      if (!allowed(space_.pp, pp)) continue;
      const std::int64_t stage = world / pp;
      if (stage % cluster_.ranks_per_gpu != 0 && pp > 1) {
        ++result_.enumerated;
        ++result_.rejected["pipeline stages would share a GPU"];
        continue;
      }
      for (const std::int64_t cp : divisors(stage)) {
        if (!allowed(space_.cp, cp) || (!space_.cp && cp > most_context_parallel())) continue;
        for (const std::int64_t tp : divisors(stage / cp)) {
          if (!allowed(space_.tp, tp) || !allowed(space_.dp, stage / cp / tp)) continue;
          for (const std::int64_t ep : divisors(stage)) {
            if (!allowed(space_.ep, ep)) continue;
            for (const std::int64_t esp : divisors(stage / ep)) {
              if (!allowed(space_.esp, esp) || !allowed(space_.edp, stage / ep / esp)) continue;
              enumerate_schedules(
                  {.pp = pp, .dp = stage / cp / tp, .cp = cp, .tp = tp, .edp = stage / ep / esp, .ep = ep, .esp = esp},
                  node);
            }
          }
        }
      }
    }
  }

  /// The largest context-parallel degree to try: only long sequences are divided, unless the user asks for it.
  std::int64_t most_context_parallel() const {
    constexpr std::int64_t kTokens = 8192;  // minimum per rank
    return std::max<std::int64_t>(1, workload_.sequence_length / kTokens);
  }

  void enumerate_schedules(const Degrees& degrees, std::int64_t node) {
    for (const bool sequence_parallel : {false, true}) {
      if (sequence_parallel && degrees.tp == 1) continue;
      for (const char* rank_order : {kMegatronRankOrder, kReplicasInnerRankOrder}) {
        if (rank_order != kMegatronRankOrder && !has_rank_orders(degrees, node)) continue;
        for (const auto& schedule : schedules()) {
          if (space_.schedule && *space_.schedule != schedule->name()) continue;
          ++result_.enumerated;
          Candidate c;
          c.degrees = degrees;
          c.schedule = schedule->name();
          c.sequence_parallel = sequence_parallel;
          c.all_to_all = space_.all_to_all.value_or(c.all_to_all);
          Degrees layer = degrees;
          if (sequence_parallel) layer.tp = 1;
          // A requested schedule uses its smallest number of chunks; otherwise one chunk, and other numbers are tried
          // for the best candidates later.
          const std::int64_t fewest = space_.schedule ? schedule->pipeline_degrees(layer, node).front() : 1;
          c.pipeline_degree = space_.pipeline_degree.value_or(fewest);
          c.codec = space_.codec.value_or(c.codec);
          c.recompute = recompute_levels().front();
          c.rank_order = rank_order;
          if (degrees.tp > node && !space_.tp) {
            ++result_.rejected["tp spans nodes (ask for it with --tp)"];
          } else if (degrees.esp > node && !space_.esp) {
            ++result_.rejected["esp spans nodes (ask for it with --esp)"];
          } else if (!space_.schedule && !schedule->same_as(layer, c, workload_.mode).empty()) {
            ++result_.rejected["the same as another schedule"];
          } else {
            consider(c);
          }
        }
      }
    }
  }

  /// Whether the other rank order gives a different feasible plan: experts are not sharded, have several replicas and
  /// are divided over several ranks, in a stage larger than a node.
  static bool has_rank_orders(const Degrees& degrees, std::int64_t node) {
    return degrees.esp == 1 && degrees.ep > 1 && degrees.edp > 1 && degrees.ranks_per_stage() > node;
  }

  void consider(Candidate c) {
    c.micro_batch = workload_.micro_batch.value_or(1);
    if (c.degrees.pp > 1 && workload_.global_batch % c.degrees.dp == 0) {
      const std::vector<std::int64_t> sizes = micro_batches(c.degrees);
      const auto least = std::find_if(sizes.rbegin(), sizes.rend(), [&](std::int64_t size) {
        c.micro_batch = size;
        return !infeasibility(model_, workload_, c, ranks_per_node_);
      });
      if (least == sizes.rend()) c.micro_batch = sizes.back();
    }
    if (const auto reason = infeasibility(model_, workload_, c, ranks_per_node_)) {
      ++result_.rejected[reason->text];
      return;
    }
    const MemoryUse states = least_memory(c);
    if (states.total() > cluster_.memory_per_rank()) {
      ++result_.rejected["memory"];
      if (!least_states_ || states.total() < least_states_->memory.total()) least_states_ = NearestMiss{c, states};
      return;
    }
    feasible_.push_back(c);
  }

  /// Weights and states of the fullest stage.
  MemoryUse least_memory(const Candidate& c) const {
    MemoryUse most{};
    for (const StageParameters& stage : stage_parameters(model_, workload_, c)) {
      const MemoryUse use = state_memory(stage, workload_, c.degrees);
      if (use.total() > most.total()) most = use;
    }
    return most;
  }

  void reject_for_memory(const Candidate& c, const MemoryUse& memory) {
    ++result_.rejected["memory"];
    if (!result_.nearest_miss || memory.total() < result_.nearest_miss->memory.total()) {
      result_.nearest_miss = NearestMiss{c, memory};
    }
  }

  /// The micro batches to try, largest first: powers of two that divide a replica's batch, and the whole batch.
  std::vector<std::int64_t> micro_batches(const Degrees& degrees) const {
    if (workload_.micro_batch) return {*workload_.micro_batch};
    const std::int64_t batch = workload_.global_batch / degrees.dp;
    std::vector<std::int64_t> out{batch};
    std::int64_t power = 1;
    while (power * 2 <= batch) power *= 2;
    for (; power >= 1; power /= 2) {
      if (batch % power == 0 && power != batch) out.push_back(power);
    }
    return out;
  }

  MemoryUse memory(const Candidate& c, const Program& program) const {
    return iteration_memory(model_, workload_, cluster_, c, program);
  }

  [[nodiscard]] Iteration iteration_of(const Candidate& c) const { return {model_, workload_, c, ranks_per_node_}; }
  /// Prices the candidate; false if it does not fit, in which case only its memory is set.
  bool price(Evaluated& e) {
    const Iteration iteration = iteration_of(e.candidate);
    e.memory = memory(e.candidate, iteration.filled());
    if (e.memory.total() > cluster_.memory_per_rank()) return false;
    e.estimate = iteration.estimated(machines_);
    return true;
  }

  bool price(Evaluated& e, const Program& program) {
    e.memory = memory(e.candidate, program);
    if (e.memory.total() > cluster_.memory_per_rank()) return false;
    e.estimate = estimate(program, machines_);
    return true;
  }

  /// The result for a candidate of feasible_: its variants that fit, by recomputation, or the memory that is missing.
  struct Outcome {
    std::vector<Evaluated> priced;
    std::vector<Deferred> unequal;
    std::optional<Evaluated> misses;
  };

  /// The recomputation levels to try, the least first: more recomputation only costs time, unless it makes room.
  std::vector<Recompute> recompute_levels() const {
    if (workload_.mode == Mode::Forward) return {Recompute::None};
    if (workload_.recompute) return {*workload_.recompute};
    return {Recompute::None, Recompute::Selective, Recompute::Full};
  }

  /// The largest micro batch that fits (with a pipeline, the smallest), priced or deferred, and larger ones that fit
  /// with more recomputation; if none fits, the smallest one with the most recomputation as a miss.
  Outcome evaluate(const Candidate& base) {
    Outcome out;
    std::vector<std::int64_t> sizes = micro_batches(base.degrees);
    if (base.degrees.pp > 1) sizes = {base.micro_batch};
    for (const Recompute recompute : recompute_levels()) {
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        Evaluated e{.candidate = base, .memory = {}, .estimate = {}, .makespan = {}};
        e.candidate.micro_batch = sizes[i];
        e.candidate.recompute = recompute;
        const Iteration iteration = iteration_of(e.candidate);
        const Program& program = iteration.filled();
        e.memory = memory(e.candidate, program);
        if (e.memory.total() > cluster_.memory_per_rank()) {
          out.misses = std::move(e);
          continue;
        }
        sizes.resize(i);
        if (program.ranks_per_stage() >= space_.asymmetric_rank_threshold && has_asymmetric_ranks(program, machines_)) {
          const Seconds bound = iteration.bounded_by_first_rank(machines_);
          out.unequal.push_back({std::move(e), bound});
        } else {
          e.estimate = iteration.estimated(machines_);
          out.priced.push_back(std::move(e));
        }
      }
    }
    return out;
  }

  void evaluate_all() {
    std::vector<Outcome> outcomes(feasible_.size());
    constexpr std::size_t kBatch = 32;
    for (std::size_t from = 0; from < feasible_.size(); from += kBatch) {
      const std::size_t n = std::min(kBatch, feasible_.size() - from);
      in_parallel(n, threads_, [&](std::size_t i) { outcomes[from + i] = evaluate(feasible_[from + i]); });
      tell(static_cast<std::int64_t>(from + n), static_cast<std::int64_t>(2 * feasible_.size()));
    }
    for (Outcome& o : outcomes) {
      const std::int64_t fit = std::ssize(o.priced) + std::ssize(o.unequal);
      result_.enumerated += std::max<std::int64_t>(0, fit - 1);
      if (fit == 0) reject_for_memory(o.misses->candidate, o.misses->memory);
      std::move(o.priced.begin(), o.priced.end(), std::back_inserter(result_.ranked));
      std::move(o.unequal.begin(), o.unequal.end(), std::back_inserter(unequal_));
    }
    if (result_.ranked.empty() && unequal_.empty()) result_.fits_with = enough_recomputation();
    if (!result_.nearest_miss && least_states_) result_.nearest_miss = in_full(least_states_->candidate);
    if (result_.ranked.empty()) price_deferred(unequal_.size());
  }

  /// The least recomputation above the workload's with which any candidate fits.
  std::optional<Recompute> enough_recomputation() const {
    if (!workload_.recompute || workload_.mode == Mode::Forward) return std::nullopt;
    Workload more = workload_;
    for (const Recompute recompute : {Recompute::Selective, Recompute::Full}) {
      if (recompute <= *workload_.recompute) continue;
      more.recompute = recompute;
      for (Candidate c : feasible_) {
        if (c.degrees.pp == 1) c.micro_batch = micro_batches(c.degrees).back();
        const Iteration iteration(model_, more, c, ranks_per_node_);
        if (memory(c, iteration.filled()).total() <= cluster_.memory_per_rank()) return recompute;
      }
    }
    return std::nullopt;
  }

  /// Prices the next `n` deferred candidates in their order.
  void price_deferred(std::size_t n) {
    in_parallel(n, threads_, [&](std::size_t i) { (void)price(unequal_[i].evaluated); });
    for (std::size_t i = 0; i < n; ++i) result_.ranked.push_back(std::move(unequal_[i].evaluated));
    unequal_.erase(unequal_.begin(), unequal_.begin() + static_cast<std::ptrdiff_t>(n));
  }

  /// Evaluates deferred candidates in rounds, least bound first, while a bound is below the best time.
  void evaluate_deferred() {
    std::stable_sort(unequal_.begin(), unequal_.end(),
                     [](const Deferred& a, const Deferred& b) { return a.bound < b.bound; });
    std::int64_t left = space_.most_deferred;
    while (!unequal_.empty() && left > 0) {
      const auto below = std::find_if(unequal_.begin(), unequal_.end(),
                                      [&](const Deferred& u) { return best_ && u.bound >= best_->seconds(); });
      const std::size_t n =
          std::min({kRound, static_cast<std::size_t>(below - unequal_.begin()), static_cast<std::size_t>(left)});
      if (n == 0) break;
      left -= static_cast<std::int64_t>(n);
      price_deferred(n);
      simulate_best();
    }
    result_.deferred = std::ssize(unequal_);
  }

  /// Tries other micro batches and interleaved stages for the best pipelines.
  void refine() {
    sort_by_closed_form();
    std::vector<Candidate> more;
    std::int64_t pipelines = 0;
    for (const Evaluated& e : result_.ranked) {
      if (e.candidate.degrees.pp == 1 || pipelines == space_.most_refined) continue;
      ++pipelines;
      for (std::int64_t parts = 1; parts * e.candidate.degrees.pp <= model_.num_layers(); parts *= 2) {
        for (const std::int64_t micro_batch : micro_batches(e.candidate.degrees)) {
          Candidate c = e.candidate;
          c.virtual_stages = parts;
          c.micro_batch = micro_batch;
          // A pipeline needs many microbatches: with fewer than one per stage it is mostly idle.
          if (c == e.candidate || workload_.global_batch / c.degrees.dp / micro_batch < c.degrees.pp) continue;
          ++result_.enumerated;
          if (const auto reason = infeasibility(model_, workload_, c, ranks_per_node_)) {
            ++result_.rejected[reason->text];
          } else {
            more.push_back(c);
          }
        }
      }
    }
    std::vector<std::optional<Evaluated>> fits(more.size());
    in_parallel(more.size(), threads_, [&](std::size_t i) {
      for (const Recompute recompute : recompute_levels()) {
        Evaluated e{.candidate = more[i], .memory = {}, .estimate = {}, .makespan = {}};
        e.candidate.recompute = recompute;
        if (!price(e)) continue;
        fits[i] = std::move(e);
        break;
      }
    });
    for (std::optional<Evaluated>& e : fits) {
      if (e) {
        result_.ranked.push_back(std::move(*e));
      } else {
        ++result_.rejected["memory"];
      }
    }
  }

  /// Tries other strategies for the MoE layers of the best candidates with different degrees: the fastest for the layer
  /// alone become candidates if they fit.
  void vary_layers() {
    if (model_.num_moe_layers() == 0) return;
    sort_by_closed_form();
    std::vector<Candidate> bases;
    for (const Evaluated& e : result_.ranked) {
      const Candidate& c = e.candidate;
      const bool is_new = std::none_of(bases.begin(), bases.end(), [&](const Candidate& b) {
        return b.degrees == c.degrees && b.rank_order == c.rank_order && b.sequence_parallel == c.sequence_parallel;
      });
      if (is_new && c.degrees.ep > 1 && std::ssize(bases) < space_.most_varied) bases.push_back(c);
    }
    std::vector<Candidate> more;
    for (const Candidate& base : bases) {
      for (const LayerStrategy& run : faster_strategies(base)) more.push_back(run.in(base));
    }
    std::vector<std::optional<Evaluated>> fits(more.size());
    in_parallel(more.size(), threads_, [&](std::size_t i) {
      Evaluated e{.candidate = more[i], .memory = {}, .estimate = {}, .makespan = {}};
      if (price(e)) fits[i] = std::move(e);
    });
    result_.enumerated += std::ssize(more);
    for (std::optional<Evaluated>& e : fits) {
      if (e) {
        result_.ranked.push_back(std::move(*e));
      } else {
        ++result_.rejected["memory"];
      }
    }
  }

  /// At most three strategies, all faster for the layer alone than the candidate's own.
  std::vector<LayerStrategy> faster_strategies(const Candidate& base) {
    constexpr std::size_t kTaken = 3;
    const Cluster& stage = machines_.first_of(base.degrees.pp);
    const LayerSpace space = layer_space();
    const Candidate one_stage = stage_alone(base);
    const LayerProblem layer =
        layer_problem(model_, workload_, first_moe(), one_stage, stage, space_.asymmetric_rank_threshold);
    const std::vector<LayerStrategy> all =
        layer_strategies(model_.hidden_size, workload_, one_stage, stage.ranks_per_node(), space);
    const FastestStrategies found = fastest_strategies(all, layer, kTaken, threads_);
    result_.undecided_strategies += found.undecided;
    std::vector<LayerStrategy> out;
    for (const PricedStrategy& p : found.fastest) {
      if (p.run == LayerStrategy::of(base)) break;
      out.push_back(p.run);
    }
    return out;
  }

  LayerSpace layer_space() const {
    return {.schedule = space_.schedule,
            .all_to_all = space_.all_to_all,
            .codec = space_.codec,
            .pipeline_degree = space_.pipeline_degree};
  }

  /// Tries different strategies for MoE layers of different kinds with the fastest candidate.
  void vary_kinds() {
    if (number_of_routing_kinds(model_, workload_.recorded.has_value()) < 2 || !best_) return;
    sort_by_makespan(result_.ranked);
    Evaluated e{.candidate = result_.ranked.front().candidate, .memory = {}, .estimate = {}, .makespan = {}};
    if (e.candidate.degrees.ep == 1) return;
    const Cluster& stage = machines_.first_of(e.candidate.degrees.pp);
    e.candidate.runs = strategies_by_kind(model_, workload_, stage, e.candidate, layer_space(),
                                          space_.asymmetric_rank_threshold, threads_);
    if (e.candidate.runs.empty() || infeasibility(model_, workload_, e.candidate, ranks_per_node_) || !price(e)) return;
    const Program program = lower_iteration(model_, workload_, e.candidate, ranks_per_node_);
    e.makespan = simulated(program, machines_, /*keep_spans=*/false).makespan;
    best_ = std::min(*best_, *e.makespan);
    ++result_.enumerated;
    ++result_.simulated;
    result_.ranked.push_back(std::move(e));
  }

  const Moe& first_moe() const {
    for (const RepeatedLayers& run : model_.layers) {
      for (const LayerSpec& layer : run.pattern) {
        if (const Moe* moe = std::get_if<Moe>(&layer.ffn)) return *moe;
      }
    }
    throw std::logic_error("asked of models with MoE layers only");
  }

  void sort_by_closed_form() {
    std::stable_sort(result_.ranked.begin(), result_.ranked.end(), [](const Evaluated& a, const Evaluated& b) {
      return a.estimate.closed_form < b.estimate.closed_form;
    });
  }

  /// The memory of the candidate with its smallest micro batch, including activations and working buffers.
  NearestMiss in_full(Candidate c) const {
    c.micro_batch = micro_batches(c.degrees).back();
    c.recompute = recompute_levels().back();
    return {c, memory(c, iteration_of(c).filled())};
  }

  /// Simulates ranked candidates that are not simulated yet, within bounds and budget.
  void simulate_best() {
    std::vector<Evaluated>& ranked = result_.ranked;
    std::vector<std::size_t> waiting;
    const auto is_worse = [&](std::size_t i) { return best_ && ranked[i].estimate.lower_bound >= best_->seconds(); };
    for (std::size_t i = 0; i < ranked.size(); ++i) {
      if (!ranked[i].makespan && !is_worse(i)) waiting.push_back(i);
    }
    while (!waiting.empty() && result_.simulated < space_.most_simulated) {
      const std::size_t n =
          std::min({kRound, waiting.size(), static_cast<std::size_t>(space_.most_simulated - result_.simulated)});
      in_parallel(n, threads_, [&](std::size_t i) {
        Evaluated& e = ranked[waiting[i]];
        const Program program = lower_iteration(model_, workload_, e.candidate, ranks_per_node_);
        e.makespan = simulated(program, machines_, /*keep_spans=*/false).makespan;
      });
      result_.simulated += static_cast<std::int64_t>(n);
      for (std::size_t i = 0; i < n; ++i) {
        const SimTime t = *ranked[waiting[i]].makespan;
        if (!best_ || t < *best_) best_ = t;
      }
      waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(n));
      std::erase_if(waiting, is_worse);
      tell(static_cast<std::int64_t>(2 * ranked.size() - waiting.size()), static_cast<std::int64_t>(2 * ranked.size()));
    }
    result_.pruned = std::ssize(ranked) + std::ssize(unequal_) - result_.simulated;
  }

  /// Searches the orders of the fastest candidates. A searched order that is faster is added to the ranked ones, which
  /// are sorted by makespan.
  void search_orders() {
    const auto n = static_cast<std::size_t>(std::min(result_.simulated, space_.most_ordered));
    std::vector<std::optional<Evaluated>> faster(n);
    in_parallel(n, threads_, [&](std::size_t i) { faster[i] = with_searched_order(result_.ranked[i]); });
    for (std::optional<Evaluated>& e : faster) {
      if (!e) continue;
      ++result_.enumerated;
      ++result_.simulated;
      result_.global_bound = std::min(result_.global_bound, e->estimate.lower_bound);
      result_.ranked.push_back(std::move(*e));
    }
  }

  /// Records the search result; returns the candidate with the order found if it fits in memory and its simulation is
  /// faster.
  std::optional<Evaluated> with_searched_order(Evaluated& listed) {
    const SearchedOrder found =
        searched_order(lower_iteration(model_, workload_, listed.candidate, ranks_per_node_), machines_);
    listed.order = found.search;
    if (found.search.improved == 0) return std::nullopt;
    Evaluated e = listed;
    e.candidate.order = kSearchedOrder;
    if (!price(e, found.program)) return std::nullopt;
    e.makespan = simulated(found.program, machines_, /*keep_spans=*/false).makespan;
    if (!(*e.makespan < *listed.makespan)) return std::nullopt;
    return e;
  }

  void tell(std::int64_t done, std::int64_t total) const {
    if (progress_) progress_(done, total);
  }

  const ModelSpec& model_;
  const Workload& workload_;
  const Cluster& cluster_;
  StageClusters machines_;
  const SearchSpace& space_;
  const std::function<void(std::int64_t, std::int64_t)>& progress_;
  std::int64_t ranks_per_node_;
  int threads_ = 1;
  std::vector<Candidate> feasible_;
  std::vector<Deferred> unequal_;
  std::optional<SimTime> best_;              // of a simulation
  std::optional<NearestMiss> least_states_;  // of the candidates whose weights and states alone do not fit
  SearchResult result_;
};

}  // namespace

SearchResult search(const ModelSpec& model, const Workload& workload, const Cluster& cluster, const SearchSpace& space,
                    const std::function<void(std::int64_t, std::int64_t)>& progress) {
  return Search(model, workload, cluster, space, progress).run();
}

void sort_by_makespan(std::vector<Evaluated>& ranked) {
  std::stable_sort(ranked.begin(), ranked.end(), [](const Evaluated& a, const Evaluated& b) {
    if (a.makespan && b.makespan) return *a.makespan < *b.makespan;
    return a.makespan.has_value() && !b.makespan.has_value();
  });
}

void bring_ideas_forward(std::vector<Evaluated>& ranked, std::size_t count) {
  for (std::size_t shown = 0; shown < std::min(count, ranked.size()); ++shown) {
    const auto front = ranked.begin() + static_cast<std::ptrdiff_t>(shown);
    const auto is_new = [&](const Evaluated& e) {
      return std::none_of(ranked.begin(), front, [&](const Evaluated& before) {
        return before.candidate.degrees == e.candidate.degrees && before.candidate.schedule == e.candidate.schedule &&
               before.candidate.recompute == e.candidate.recompute &&
               before.candidate.rank_order == e.candidate.rank_order;
      });
    };
    const auto next = std::find_if(front, ranked.end(), is_new);
    if (next == ranked.end()) return;
    std::rotate(front, next, next + 1);
  }
}

}  // namespace moeplan::planner
