#include "planner/search/ranking.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "model/base/in_parallel.hpp"
#include "planner/search/rounds.hpp"

namespace moeplan::planner {

namespace {

// Of each list of candidates a search that is cut nevertheless prices this many that fit, if that takes no more tries.
constexpr std::size_t kLeastFits = 8, kMostTries = 256;
constexpr std::int64_t kRunnersUp = 16;  // candidates slower than the best that are priced for comparison

/// Flows between ranks in the exchanges of one microbatch: a simulation of ranks that all differ follows each of them,
/// of a pipeline on each of its stages.
std::int64_t exchange_flows(const Problem& problem, const Candidate& c) {
  const std::int64_t of_a_layer = problem.workload().mode == Mode::Train ? 4 : 2;  // a dispatch and a combine per pass
  const std::int64_t peers = c.degrees.ep * c.degrees.esp - 1;
  return of_a_layer * problem.model().num_moe_layers() * c.degrees.ranks_per_stage() * peers;
}

}  // namespace

Ranking::Ranking(const Problem& problem, const SearchSpace& space, const Enumeration& enumeration,
                 const std::function<void(std::int64_t, std::int64_t)>& progress)
    : problem_(problem),
      space_(space),
      enumeration_(enumeration),
      progress_(progress),
      threads_(space.thread_count()),
      common_work_(problem) {
  result_.rejected = enumeration.rejected;
  result_.enumerated = enumeration.enumerated;
}

bool Ranking::is_beaten(const Candidate& candidate, Seconds bound) const {
  const auto faster = [&](const std::vector<Seconds>& sorted) {
    return std::upper_bound(sorted.begin(), sorted.end(), bound) - sorted.begin();
  };
  const std::int64_t refined = space_.most_refined;
  if (candidate.degrees.pp > 1 && refined > 0 && faster(of_pipelines_) >= std::max(refined, kRunnersUp)) return true;
  const bool is_slower =
      std::any_of(early_.begin(), early_.end(), [&](const auto& known) { return bound >= known.second.seconds(); });
  return faster(closed_forms_) >= (is_slower ? kRunnersUp : space_.most_simulated);
}

bool Ranking::is_cut() {
  if (!result_.is_cut && space_.is_out_of_time && !closed_forms_.empty()) result_.is_cut = space_.is_out_of_time();
  return result_.is_cut;
}

void Ranking::rule_out(Seconds bound) {
  ++result_.unpriced;
  least_unpriced_ = std::min(least_unpriced_, bound);
}

void Ranking::note_priced(const Evaluated& evaluated) {
  const Seconds time = evaluated.estimate.closed_form;
  const auto insert = [&](std::vector<Seconds>& sorted) {
    sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), time), time);
  };
  insert(closed_forms_);
  if (evaluated.candidate.degrees.pp > 1) insert(of_pipelines_);
}

/// The micro batches of an enumerated candidate, largest first: with a pipeline its own, otherwise all that are
/// feasible.
std::vector<std::int64_t> Ranking::sizes_of(const Candidate& base) const {
  if (base.degrees.pp > 1) return {base.micro_batch};
  std::vector<std::int64_t> sizes = micro_batches(problem_.workload(), base.degrees);
  Candidate c = base;
  std::erase_if(sizes, [&](std::int64_t size) {
    c.micro_batch = size;
    return evaluate(problem_, c, Depth::Feasibility).infeasibility.has_value();
  });
  return sizes.empty() ? std::vector{base.micro_batch} : sizes;
}

/// Evaluates the candidate with the largest of these micro batches that fits in memory, or with the smallest one if
/// none does. Memory grows with the micro batch, nearly in proportion but for weights and states, which is where to
/// begin.
Evaluation Ranking::with_largest_size(Candidate c, std::span<const std::int64_t> sizes) const {
  std::optional<MemoryUse> of_smallest;
  const auto of = [&](std::size_t i) {
    c.micro_batch = sizes[i];
    EvaluationOptions options{.asymmetric_rank_threshold = space_.asymmetric_rank_threshold};
    if (i + 1 == sizes.size()) options.memory = of_smallest;
    return evaluate(problem_, c, Depth::Extrapolation, options);
  };
  if (sizes.size() == 1) return of(0);
  std::size_t i = sizes.size() - 1;
  c.micro_batch = sizes[i];
  const Evaluation smallest = evaluate(problem_, c, Depth::Memory);
  if (smallest.infeasibility) return smallest;
  const MemoryUse& use = of_smallest.emplace(smallest.evaluated.memory);
  const Bytes growing = (use.activations + use.working) / static_cast<double>(sizes[i]);
  const Bytes room = problem_.cluster().memory_per_rank() - (use.total() - use.activations - use.working);
  while (i > 0 && static_cast<double>(sizes[i - 1]) * growing <= room) --i;
  Evaluation e = of(i);
  while (e.infeasibility) e = of(++i);
  while (i > 0) {
    Evaluation larger = of(i - 1);
    if (larger.infeasibility) break;
    e = std::move(larger);
    --i;
  }
  return e;
}

/// The largest micro batch that fits (with a pipeline, the smallest), priced or deferred, and larger ones that fit with
/// more recomputation; if none fits, the smallest one with the most recomputation as a miss. Beaten ones are left out.
Ranking::Fits Ranking::fits(const Candidate& base) const {
  Fits out;
  std::vector<std::int64_t> sizes = sizes_of(base);
  for (const Recompute recompute : recompute_levels(problem_.workload(), space_)) {
    Candidate c = base;
    c.recompute = recompute;
    const auto beaten = std::partition_point(sizes.begin(), sizes.end(), [&](std::int64_t size) {
      c.micro_batch = size;
      const Seconds bound = common_work_.bound(c);
      if (!is_beaten(c, bound)) return true;
      out.bound = std::min(out.bound.value_or(bound), bound);
      return false;
    });
    sizes.erase(beaten, sizes.end());
    if (sizes.empty()) break;
    Evaluation e = with_largest_size(c, sizes);
    if (e.infeasibility) {
      out.miss = NearestMiss{std::move(e.evaluated.candidate), e.evaluated.memory};
      continue;
    }
    const auto fitting = std::find(sizes.begin(), sizes.end(), e.evaluated.candidate.micro_batch);
    sizes.erase(fitting, sizes.end());  // more recomputation is of use for larger micro batches only
    if (e.bound) {
      out.deferred.push_back({std::move(e.evaluated), *e.bound});
    } else {
      out.priced.push_back(std::move(e.evaluated));
    }
  }
  return out;
}

void Ranking::add(const std::vector<Candidate>& feasible) {
  std::vector<Seconds> bounds(feasible.size());
  in_parallel(feasible.size(), threads_, [&](std::size_t i) { bounds[i] = rough_bounds(feasible[i]).front().first; });
  std::vector<bool> is_rough(feasible.size(), true);
  const auto refine = [&](std::span<const std::size_t> items) {
    in_parallel(items.size(), threads_, [&](std::size_t k) { bounds[items[k]] = least_bound(feasible[items[k]]); });
    for (const std::size_t i : items) is_rough[i] = false;
  };
  std::vector<Fits> all(feasible.size());
  std::size_t tries = 0, fitting = 0;
  const auto is_over = [&] { return (fitting >= kLeastFits || tries >= kMostTries) && is_cut(); };
  in_rounds_by_bound(
      bounds,
      [&](std::size_t i) {
        const bool beaten = is_over() || is_beaten(feasible[i], bounds[i]);
        if (beaten) all[i].bound = bounds[i];
        return beaten;
      },
      refine,
      [&](std::span<const std::size_t> items) {
        tries += items.size();
        in_parallel(items.size(), threads_, [&](std::size_t k) { all[items[k]] = fits(feasible[items[k]]); });
        for (const std::size_t i : items) {
          for (const Evaluated& e : all[i].priced) note_priced(e);
          fitting += all[i].priced.size();
        }
      },
      [&](std::size_t left) { tell(added_ + feasible.size() - left, 2 * enumeration_.feasible.size()); });
  if (result_.is_cut) {  // the least of those that had no turn is told
    Seconds least{std::numeric_limits<double>::infinity()};
    for (const std::size_t i : by_bound(bounds)) {
      if (bounds[i] >= least) break;
      if (!all[i].bound) continue;
      if (is_rough[i]) refine(std::span(&i, 1));
      all[i].bound = bounds[i];
      least = std::min(least, bounds[i]);
    }
  }
  added_ += feasible.size();
  for (Fits& f : all) {
    const std::int64_t fit = std::ssize(f.priced) + std::ssize(f.deferred);
    result_.enumerated += std::max<std::int64_t>(0, fit - 1);
    if (fit == 0 && f.bound) {
      rule_out(*f.bound);
    } else if (fit == 0) {
      ++result_.rejected["memory"];
      if (!result_.nearest_miss || f.miss->memory.total() < result_.nearest_miss->memory.total())
        result_.nearest_miss = f.miss;
    }
    std::move(f.priced.begin(), f.priced.end(), std::back_inserter(result_.ranked));
    std::move(f.deferred.begin(), f.deferred.end(), std::back_inserter(deferred_));
  }
  simulate_front();
}

void Ranking::settle() {
  if (result_.ranked.empty() && deferred_.empty()) result_.fits_with = enough_recomputation(enumeration_.feasible);
  if (!result_.nearest_miss && enumeration_.least_states)
    result_.nearest_miss = in_full(enumeration_.least_states->candidate);
}

bool Ranking::price_deferred_alone() {
  if (!result_.ranked.empty() || deferred_.empty()) return false;
  std::vector<Seconds> bounds;
  for (const Deferred& d : deferred_) bounds.push_back(d.bound);
  std::vector<bool> is_priced(deferred_.size(), false);
  in_rounds(
      by_bound(bounds), kAllItems,
      [&](std::size_t i) { return is_cut() || is_beaten(deferred_[i].evaluated.candidate, bounds[i]); },
      [&](std::span<const std::size_t> items) {
        price_deferred(items);
        for (const std::size_t i : items) is_priced[i] = true;
      },
      [&](std::size_t left) { tell(2 * deferred_.size() - left, 2 * deferred_.size()); });
  for (std::size_t i = 0; i < deferred_.size(); ++i) {
    if (!is_priced[i]) rule_out(bounds[i]);
  }
  deferred_.clear();
  simulate_front();
  return true;
}

/// Rough bounds for the micro batches of an enumerated candidate, the least first. The largest micro batch has not
/// always the least: kernels come in waves of tiles, and large ones lower the clock.
std::vector<std::pair<Seconds, std::int64_t>> Ranking::rough_bounds(Candidate base) const {
  std::vector<std::int64_t> sizes{base.micro_batch};
  if (base.degrees.pp == 1) sizes = micro_batches(problem_.workload(), base.degrees);
  std::vector<std::pair<Seconds, std::int64_t>> out;
  for (const std::int64_t size : sizes) {
    base.micro_batch = size;
    out.emplace_back(common_work_.rough_bound(base), size);
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// A bound for all micro batches of an enumerated candidate.
Seconds Ranking::least_bound(Candidate base) const {
  Seconds least{std::numeric_limits<double>::infinity()};
  for (const auto& [rough, size] : rough_bounds(base)) {
    if (rough >= least) break;
    base.micro_batch = size;
    least = std::min(least, std::max(rough, common_work_.bound(base)));
  }
  return least;
}

/// The least recomputation above the workload's with which any candidate fits.
std::optional<Recompute> Ranking::enough_recomputation(const std::vector<Candidate>& feasible) const {
  if (!problem_.workload().recompute || problem_.workload().mode == Mode::Forward) return std::nullopt;
  Workload more = problem_.workload();
  const Problem with_more(problem_.model(), more, problem_.cluster());
  for (const Recompute recompute : {Recompute::Selective, Recompute::Full}) {
    if (recompute <= *problem_.workload().recompute) continue;
    more.recompute = recompute;
    for (Candidate c : feasible) {
      if (c.degrees.pp == 1) c.micro_batch = micro_batches(more, c.degrees).back();
      if (!evaluate(with_more, c, Depth::Memory).infeasibility) return recompute;
    }
  }
  return std::nullopt;
}

/// The memory of the candidate with its smallest micro batch, including activations and working buffers.
NearestMiss Ranking::in_full(Candidate c) const {
  c.micro_batch = micro_batches(problem_.workload(), c.degrees).back();
  c.recompute = recompute_levels(problem_.workload(), space_).back();
  const MemoryUse memory = evaluate(problem_, c, Depth::Memory, {.checks = Checks::None}).evaluated.memory;
  return {std::move(c), memory};
}

void Ranking::add_priced(const std::vector<std::vector<Candidate>>& proposals, const std::vector<Seconds>& known) {
  std::vector<Seconds> bounds = known;
  bounds.resize(proposals.size());
  in_parallel(proposals.size(), threads_,
              [&](std::size_t i) { bounds[i] = std::max(bounds[i], common_work_.bound(proposals[i].front())); });
  std::vector<std::optional<Evaluation>> evaluations(proposals.size());
  in_rounds(
      by_bound(bounds), kAllItems,
      [&](std::size_t i) { return is_cut() || is_beaten(proposals[i].front(), bounds[i]); },
      [&](std::span<const std::size_t> items) {
        in_parallel(items.size(), threads_, [&](std::size_t k) {
          std::optional<Evaluation>& evaluation = evaluations[items[k]];
          for (const Candidate& variant : proposals[items[k]]) {
            evaluation = evaluate(problem_, variant, Depth::Extrapolation);
            if (!evaluation->infeasibility) return;
          }
        });
        for (const std::size_t i : items) {
          if (!evaluations[i]->infeasibility) note_priced(evaluations[i]->evaluated);
        }
      });
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    std::optional<Evaluation>& e = evaluations[i];
    if (!e) {
      rule_out(bounds[i]);
    } else if (e->infeasibility) {
      ++result_.rejected[e->infeasibility->text];
    } else {
      result_.ranked.push_back(std::move(e->evaluated));
    }
  }
  simulate_front();
}

/// Simulates the candidate with the least closed form, for a time that bounds can be compared with.
void Ranking::simulate_front() {
  const auto front = std::min_element(
      result_.ranked.begin(), result_.ranked.end(),
      [](const Evaluated& a, const Evaluated& b) { return a.estimate.closed_form < b.estimate.closed_form; });
  if (front != result_.ranked.end() && !simulated_early(front->candidate))
    early_.emplace_back(front->candidate, simulated_makespan(problem_, front->candidate));
}

std::optional<SimTime> Ranking::simulated_early(const Candidate& candidate) const {
  const auto known = std::find_if(early_.begin(), early_.end(), [&](const auto& e) { return e.first == candidate; });
  return known == early_.end() ? std::nullopt : std::optional(known->second);
}

void Ranking::add_simulated(Evaluated evaluated) {
  best_ = std::min(best_.value_or(*evaluated.makespan), *evaluated.makespan);
  ++result_.simulated;
  result_.ranked.push_back(std::move(evaluated));
}

void Ranking::sort_by_closed_form() {
  std::stable_sort(result_.ranked.begin(), result_.ranked.end(), [](const Evaluated& a, const Evaluated& b) {
    return a.estimate.closed_form < b.estimate.closed_form;
  });
}

void Ranking::simulate_best() {
  std::vector<Evaluated>& ranked = result_.ranked;
  std::vector<std::size_t> waiting;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    if (!ranked[i].makespan) waiting.push_back(i);
  }
  const std::int64_t budget = is_cut() ? 1 : space_.most_simulated;
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(0, budget - result_.simulated));
  const auto is_beaten = [&](std::size_t i) {
    return best_ && (is_cut() || ranked[i].estimate.lower_bound >= best_->seconds());
  };
  const auto simulate = [&](std::span<const std::size_t> items) {
    in_parallel(items.size(), threads_, [&](std::size_t k) {
      Evaluated& e = ranked[items[k]];
      e.makespan = simulated_early(e.candidate);
      if (!e.makespan) e.makespan = simulated_makespan(problem_, e.candidate);
    });
    result_.simulated += std::ssize(items);
    for (const std::size_t i : items) best_ = std::min(best_.value_or(*ranked[i].makespan), *ranked[i].makespan);
  };
  in_rounds(std::move(waiting), most, is_beaten, simulate,
            [&](std::size_t left) { tell(2 * ranked.size() - left, 2 * ranked.size()); });
}

/// Simulates the candidate with the least closed form, if that is below the best time.
void Ranking::simulate_next() {
  const auto next = std::min_element(
      result_.ranked.begin(), result_.ranked.end(),
      [](const Evaluated& a, const Evaluated& b) { return a.estimate.closed_form < b.estimate.closed_form; });
  if (next->makespan || (best_ && next->estimate.closed_form >= best_->seconds())) return;
  next->makespan = simulated_makespan(problem_, next->candidate);
  ++result_.simulated;
  best_ = std::min(best_.value_or(*next->makespan), *next->makespan);
}

/// A search that is cut still evaluates one round of pipelines: their stages are simulated by segments, in seconds.
void Ranking::evaluate_deferred() {
  std::stable_sort(deferred_.begin(), deferred_.end(),
                   [](const Deferred& a, const Deferred& b) { return a.bound < b.bound; });
  std::vector<std::size_t> waiting(deferred_.size());
  std::iota(waiting.begin(), waiting.end(), std::size_t{0});
  std::vector<bool> is_priced(deferred_.size(), false), is_too_large(deferred_.size(), false);
  bool has_priced = false;
  in_rounds(
      std::move(waiting), static_cast<std::size_t>(std::max<std::int64_t>(0, space_.most_deferred)),
      [&](std::size_t i) {
        if (!best_) return false;
        const bool is_late = is_cut() && (has_priced || deferred_[i].evaluated.candidate.degrees.pp == 1);
        if (is_late || deferred_[i].bound >= best_->seconds()) return true;
        is_too_large[i] = exchange_flows(problem_, deferred_[i].evaluated.candidate) > space_.most_deferred_flows;
        return static_cast<bool>(is_too_large[i]);
      },
      [&](std::span<const std::size_t> items) {
        price_deferred(items);
        for (const std::size_t i : items) is_priced[i] = true;
        has_priced = true;
        is_cut() ? simulate_next() : simulate_best();
      },
      {}, kSmallRound);
  std::vector<Deferred> left;
  for (std::size_t i = 0; i < deferred_.size(); ++i) {
    if (is_too_large[i] && deferred_[i].bound < best_->seconds()) ++result_.undecided;
    if (!is_priced[i]) left.push_back(std::move(deferred_[i]));
  }
  deferred_ = std::move(left);
  result_.deferred = std::ssize(deferred_);
  result_.pruned = std::ssize(result_.ranked) + result_.deferred + result_.unpriced - result_.simulated;
}

/// Moves deferred candidates to the ranked ones.
void Ranking::price_deferred(std::span<const std::size_t> which) {
  std::vector<Evaluated> priced(which.size());
  in_parallel(which.size(), threads_, [&](std::size_t k) {
    priced[k] = evaluate(problem_, deferred_[which[k]].evaluated.candidate, Depth::Extrapolation).evaluated;
  });
  for (const Evaluated& e : priced) note_priced(e);
  std::move(priced.begin(), priced.end(), std::back_inserter(result_.ranked));
}

void Ranking::tell(std::size_t done, std::size_t total) const {
  if (progress_) progress_(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
}

}  // namespace moeplan::planner
