#include "planner/search/ranking.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "model/base/in_parallel.hpp"
#include "planner/search/closer_bounds.hpp"
#include "planner/search/rounds.hpp"

namespace moeplan::planner {

namespace {

// Of each list of candidates a search that is cut nevertheless prices this many that fit, if that takes no more tries.
constexpr std::size_t kLeastFits = 8, kMostTries = 256;
constexpr std::int64_t kRunnersUp = 16;  // candidates slower than the best that are priced for comparison

void insert(std::vector<Seconds>& sorted, Seconds time) {
  sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), time), time);
}

/// Of sorted times, how many are at most this one.
std::int64_t number_up_to(const std::vector<Seconds>& sorted, Seconds time) {
  return std::upper_bound(sorted.begin(), sorted.end(), time) - sorted.begin();
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
  const auto faster = [&](const std::vector<Seconds>& sorted) { return number_up_to(sorted, bound); };
  const std::int64_t refined = space_.most_refined;
  if (candidate.degrees.pp > 1 && refined > 0 && faster(of_pipelines_) >= std::max(refined, kRunnersUp)) return true;
  const bool is_slower = is_slower_than_early(bound);
  if (is_slower && has_deferred(candidate.degrees)) return true;
  return faster(closed_forms_) >= (is_slower ? kRunnersUp : space_.most_simulated);
}

bool Ranking::has_deferred(const Degrees& degrees) const {
  return std::find(with_deferred_.begin(), with_deferred_.end(), degrees) != with_deferred_.end();
}

bool Ranking::is_beaten_by_exchange(const Candidate& c, Seconds own, Seconds deduplicated) const {
  if (has_deferred(c.degrees) && is_slower_than_early(own)) return true;
  if (c.virtual_stages > 1) return false;
  const auto is_beaten_by = [&](const std::vector<Seconds>& others, Seconds bound) {
    return number_up_to(others, bound) >= std::max({space_.most_refined, space_.most_simulated, kRunnersUp});
  };
  const std::vector<Seconds>& others = c.degrees.pp > 1 ? of_pipelines_ : closed_forms_;
  if (!is_beaten_by(others, own)) return false;
  return !spans_nodes(problem_, c) || is_beaten_by(of_spanning_, own) || is_beaten_by(others, deduplicated);
}

bool Ranking::is_cut() {
  if (!result_.is_cut && space_.is_out_of_time && (!closed_forms_.empty() || !with_deferred_.empty()))
    result_.is_cut = space_.is_out_of_time();
  return result_.is_cut;
}

void Ranking::rule_out(Seconds bound) {
  ++result_.unpriced;
  least_unpriced_ = std::min(least_unpriced_, bound);
}

void Ranking::note_priced(const Evaluated& evaluated) {
  const Seconds time = evaluated.estimate.closed_form;
  insert(closed_forms_, time);
  if (evaluated.candidate.degrees.pp > 1) insert(of_pipelines_, time);
  if (spans_nodes(problem_, evaluated.candidate)) insert(of_spanning_, time);
}

void Ranking::note(const Fits& fits, std::vector<InTurn>& known) {
  for (const Evaluated& e : fits.priced) {
    note_priced(e);
    known.push_back({&e.candidate, e.estimate.closed_form, false});
  }
  for (const Deferred& d : fits.deferred) {
    const Candidate& c = d.evaluated.candidate;
    known.push_back({&c, d.bound, true});
    if (!has_deferred(c.degrees)) with_deferred_.push_back(c.degrees);
  }
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
Evaluation Ranking::with_largest_size(Candidate c, std::span<const std::int64_t> sizes, Depth depth) const {
  std::optional<MemoryUse> of_smallest;
  const auto of = [&](std::size_t i) {
    c.micro_batch = sizes[i];
    EvaluationOptions options{.asymmetric_rank_threshold = space_.asymmetric_rank_threshold,
                              .is_rejected_by_first_rank = true};
    if (i + 1 == sizes.size()) options.memory = of_smallest;
    return evaluate(problem_, c, depth, options);
  };
  if (sizes.size() == 1) return of(0);
  std::size_t i = sizes.size() - 1;
  c.micro_batch = sizes[i];
  const Evaluation smallest = evaluate(problem_, c, Depth::Memory, {.is_rejected_by_first_rank = true});
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

std::vector<Candidate> Ranking::fitting(const Candidate& base) const {
  std::vector<Candidate> out;
  std::vector<std::int64_t> sizes = sizes_of(base);
  for (const Recompute recompute : recompute_levels(problem_, space_)) {
    if (sizes.empty()) break;
    Candidate c = base;
    c.recompute = recompute;
    Evaluation e = with_largest_size(std::move(c), sizes, Depth::Memory);
    if (e.infeasibility) continue;
    sizes.erase(std::find(sizes.begin(), sizes.end(), e.evaluated.candidate.micro_batch), sizes.end());
    out.push_back(std::move(e.evaluated.candidate));
  }
  return out;
}

/// The largest micro batch that fits (with a pipeline, the smallest), priced or deferred, and larger ones that fit with
/// more recomputation; if none fits, the smallest one with the most recomputation as a miss. Beaten ones are left out.
Ranking::Fits Ranking::fits(const Candidate& base) const {
  Fits out;
  std::vector<std::int64_t> sizes = sizes_of(base);
  for (const Recompute recompute : recompute_levels(problem_, space_)) {
    Candidate c = base;
    c.recompute = recompute;
    const auto beaten = std::partition_point(sizes.begin(), sizes.end(), [&](std::int64_t size) {
      c.micro_batch = size;
      const Seconds bound = common_work_.bound(c);
      const bool is_slow = is_beaten(c, bound),
                 has_slow_exchange =
                     !is_slow && c.degrees.pp > 1 && is_beaten_by_exchange(c, common_work_.own_bound(c), Seconds());
      if (is_slow) out.bound = std::min(out.bound.value_or(bound), bound);
      if (has_slow_exchange) out.is_beaten_by_exchange = true;
      return !is_slow && !has_slow_exchange;
    });
    sizes.erase(beaten, sizes.end());
    if (sizes.empty()) break;
    Evaluation e = with_largest_size(c, sizes, Depth::Extrapolation);
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
  CloserBounds bounds(problem_, space_, common_work_, feasible);
  const std::vector<Seconds>&with_any_exchange = bounds.with_any_exchange(), &own = bounds.with_own_exchange();
  std::vector<Fits> all(feasible.size());
  std::size_t tries = 0, fitting = 0;
  std::vector<InTurn> priced;
  bool has_simulated = false;
  const auto is_over = [&] { return (fitting >= kLeastFits || tries >= kMostTries) && is_cut(); };
  in_rounds_by_bound(
      own, [&](std::size_t i) { return bounds.is_rough(i); },
      [&](std::size_t i) {
        if (is_over() || is_beaten(feasible[i], with_any_exchange[i])) all[i].bound = with_any_exchange[i];
        if (all[i].bound) return true;
        all[i].is_beaten_by_exchange =
            bounds.has_own(i) && is_beaten_by_exchange(feasible[i], own[i], bounds.deduplicated(i));
        if (all[i].is_beaten_by_exchange && bounds.has_deduplicated(i)) insert(of_spanning_, own[i]);
        return all[i].is_beaten_by_exchange;
      },
      [&](std::span<const std::size_t> items) {
        in_parallel(items.size(), threads_, [&](std::size_t k) { bounds.refine(items[k]); });
      },
      [&](std::span<const std::size_t> items) {
        tries += items.size();
        in_parallel(items.size(), threads_, [&](std::size_t k) { all[items[k]] = fits(feasible[items[k]]); });
        for (const std::size_t i : items) {
          note(all[i], priced);
          fitting += all[i].priced.size();
        }
        if (!has_simulated) has_simulated = simulate_in_turn(priced, own[items.back()]);
      },
      [&](std::size_t left) { tell(added_ + feasible.size() - left, 2 * enumeration_.feasible.size()); });
  if (result_.is_cut) {  // the least of those that had no turn is told
    Seconds least{std::numeric_limits<double>::infinity()};
    in_rounds(
        by_bound(with_any_exchange), kAllItems,
        [&](std::size_t i) { return !all[i].bound || with_any_exchange[i] >= least; },
        [&](std::span<const std::size_t> items) {
          in_parallel(items.size(), threads_, [&](std::size_t k) { bounds.refine_with_any_exchange(items[k]); });
          for (const std::size_t i : items) least = std::min(least, *(all[i].bound = with_any_exchange[i]));
        },
        {}, 16 * kRound);
  }
  added_ += feasible.size();
  for (std::size_t i = 0; i < all.size(); ++i) take({feasible[i], with_any_exchange[i]}, std::move(all[i]));
  simulate_front();
}

/// What became of an enumerated candidate.
void Ranking::take(LeftOut candidate, Fits f) {
  const std::int64_t fit = std::ssize(f.priced) + std::ssize(f.deferred);
  result_.enumerated += std::max<std::int64_t>(0, fit - 1);
  if (fit == 0 && f.is_beaten_by_exchange) {
    ++result_.unpriced;
    left_out_.push_back(std::move(candidate));
  } else if (fit == 0 && f.bound) {
    rule_out(*f.bound);
  } else if (fit == 0) {
    ++result_.rejected["memory"];
    if (!result_.nearest_miss || f.miss->memory.total() < result_.nearest_miss->memory.total())
      result_.nearest_miss = std::move(f.miss);
  }
  std::move(f.priced.begin(), f.priced.end(), std::back_inserter(result_.ranked));
  std::move(f.deferred.begin(), f.deferred.end(), std::back_inserter(deferred_));
}

void Ranking::settle() {
  if (result_.ranked.empty() && deferred_.empty()) result_.fits_with = enough_recomputation(enumeration_.feasible);
  std::optional<NearestMiss>& miss = result_.nearest_miss;
  if (miss) {
    miss->memory = memory_in_full(miss->candidate);  // it may be that of the first rank
  } else if (enumeration_.least_states) {
    miss = smallest(enumeration_.least_states->candidate);
  }
}

bool Ranking::price_deferred_alone() {
  if (!result_.ranked.empty() || deferred_.empty()) return false;
  std::vector<Seconds> bounds;
  std::vector<std::int64_t> flows;
  for (const Deferred& d : deferred_) {
    bounds.push_back(d.bound);
    flows.push_back(exchange_flows(problem_, d.evaluated.candidate));
  }
  // Those whose simulations take minutes are left out; if all do, all but those that take the least.
  const std::int64_t most = std::max(space_.most_deferred_flows, *std::min_element(flows.begin(), flows.end()));
  std::vector<std::size_t> waiting = by_bound(bounds);
  std::erase_if(waiting, [&](std::size_t i) { return flows[i] > most; });
  std::vector<bool> is_priced(deferred_.size(), false);
  bool has_priced = false;
  in_rounds(
      std::move(waiting), kAllItems,
      [&](std::size_t i) {
        const Candidate& c = deferred_[i].evaluated.candidate;
        return (is_cut() && has_priced) || (!simulated_early(c) && is_beaten(c, bounds[i]));
      },
      [&](std::span<const std::size_t> items) {
        for (Evaluated& e : priced_deferred(items)) {
          note_priced(e);
          result_.ranked.push_back(std::move(e));
        }
        for (const std::size_t i : items) is_priced[i] = true;
        has_priced = true;
      },
      [&](std::size_t left) { tell(2 * deferred_.size() - left, 2 * deferred_.size()); });
  leave_deferred(is_priced);
  simulate_front();
  return true;
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
      if (!evaluate(with_more, c, Depth::Memory, {.is_rejected_by_first_rank = true}).infeasibility) return recompute;
    }
  }
  return std::nullopt;
}

/// The candidate with its smallest micro batch and the most recomputation.
NearestMiss Ranking::smallest(Candidate c) const {
  c.micro_batch = micro_batches(problem_.workload(), c.degrees).back();
  c.recompute = recompute_levels(problem_, space_).back();
  const MemoryUse memory = memory_in_full(c);
  return {std::move(c), memory};
}

/// The memory of the candidate's fullest rank, including activations and working buffers.
MemoryUse Ranking::memory_in_full(const Candidate& c) const {
  return evaluate(problem_, c, Depth::Memory, {.checks = Checks::None}).evaluated.memory;
}

void Ranking::add_priced(const std::vector<std::vector<Candidate>>& proposals, const std::vector<Seconds>& known,
                         bool even_if_cut) {
  std::vector<Seconds> bounds = known;
  bounds.resize(proposals.size());
  const auto raise_bound = [&](std::size_t i, const Candidate& c) {
    // The exchange of microbatches that overlap is varied no more.
    bounds[i] = std::max(bounds[i], c.ep_overlap ? common_work_.own_bound(c) : common_work_.bound(c));
  };
  in_parallel(proposals.size(), threads_, [&](std::size_t i) { raise_bound(i, proposals[i].front()); });
  std::vector<std::optional<Evaluation>> evaluations(proposals.size());
  in_rounds(
      by_bound(bounds), kAllItems,
      [&](std::size_t i) { return (is_cut() && !even_if_cut) || is_beaten(proposals[i].front(), bounds[i]); },
      [&](std::span<const std::size_t> items) {
        in_parallel(items.size(), threads_, [&](std::size_t k) {
          const std::size_t i = items[k];
          std::optional<Evaluation>& evaluation = evaluations[i];
          for (const Candidate& variant : proposals[i]) {
            if (evaluation) raise_bound(i, variant);
            if (evaluation && is_beaten(variant, bounds[i])) return evaluation.reset();
            evaluation = evaluate(problem_, variant, Depth::Extrapolation);
            if (!evaluation->infeasibility) return;
          }
        });
        for (const std::size_t i : items) {
          if (evaluations[i] && !evaluations[i]->infeasibility) note_priced(evaluations[i]->evaluated);
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

/// Removes the deferred candidates that were priced.
void Ranking::leave_deferred(const std::vector<bool>& is_priced) {
  std::vector<Deferred> left;
  for (std::size_t i = 0; i < deferred_.size(); ++i) {
    if (!is_priced[i]) left.push_back(std::move(deferred_[i]));
  }
  deferred_ = std::move(left);
}

std::vector<Evaluated> Ranking::priced_deferred(std::span<const std::size_t> which) const {
  std::vector<Evaluated> priced(which.size());
  in_parallel(which.size(), threads_, [&](std::size_t k) {
    priced[k] = evaluate(problem_, deferred_[which[k]].evaluated.candidate, Depth::Extrapolation).evaluated;
  });
  return priced;
}

void Ranking::tell(std::size_t done, std::size_t total) const {
  if (progress_) progress_(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
}

}  // namespace moeplan::planner
