#include "planner/search/ranking.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "model/base/in_parallel.hpp"
#include "planner/search/rounds.hpp"

namespace moeplan::planner {

Ranking::Ranking(const Problem& problem, const SearchSpace& space,
                 const std::function<void(std::int64_t, std::int64_t)>& progress)
    : problem_(problem), space_(space), progress_(progress), threads_(space.thread_count()) {}

/// The largest micro batch that fits (with a pipeline, the smallest), priced or deferred, and larger ones that fit with
/// more recomputation; if none fits, the smallest one with the most recomputation as a miss.
Ranking::Fits Ranking::fits(const Candidate& base) const {
  const EvaluationOptions options{.asymmetric_rank_threshold = space_.asymmetric_rank_threshold};
  Fits out;
  std::vector<std::int64_t> sizes = micro_batches(problem_.workload(), base.degrees);
  if (base.degrees.pp > 1) sizes = {base.micro_batch};
  for (const Recompute recompute : recompute_levels(problem_.workload(), space_)) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      Candidate c = base;
      c.micro_batch = sizes[i];
      c.recompute = recompute;
      Evaluation e = evaluate(problem_, c, Depth::Extrapolation, options);
      if (e.infeasibility) {
        out.miss = NearestMiss{std::move(c), e.evaluated.memory};
        continue;
      }
      if (e.bound) {
        out.deferred.push_back({std::move(e.evaluated), *e.bound});
      } else {
        out.priced.push_back(std::move(e.evaluated));
      }
      sizes.resize(i);  // more recomputation is of use for larger micro batches only
      break;
    }
  }
  return out;
}

void Ranking::add_all(Enumeration enumeration) {
  const std::vector<Candidate>& feasible = enumeration.feasible;
  result_.rejected = std::move(enumeration.rejected);
  result_.enumerated = enumeration.enumerated;
  std::vector<Fits> all(feasible.size());
  constexpr std::size_t kBatch = 32;  // candidates between two reports of progress
  for (std::size_t from = 0; from < feasible.size(); from += kBatch) {
    const std::size_t n = std::min(kBatch, feasible.size() - from);
    in_parallel(n, threads_, [&](std::size_t i) { all[from + i] = fits(feasible[from + i]); });
    tell(from + n, 2 * feasible.size());
  }
  for (Fits& f : all) {
    const std::int64_t fit = std::ssize(f.priced) + std::ssize(f.deferred);
    result_.enumerated += std::max<std::int64_t>(0, fit - 1);
    if (fit == 0) {
      ++result_.rejected["memory"];
      if (!result_.nearest_miss || f.miss->memory.total() < result_.nearest_miss->memory.total())
        result_.nearest_miss = f.miss;
    }
    std::move(f.priced.begin(), f.priced.end(), std::back_inserter(result_.ranked));
    std::move(f.deferred.begin(), f.deferred.end(), std::back_inserter(deferred_));
  }
  if (result_.ranked.empty() && deferred_.empty()) result_.fits_with = enough_recomputation(feasible);
  if (!result_.nearest_miss && enumeration.least_states)
    result_.nearest_miss = in_full(enumeration.least_states->candidate);
  if (!result_.ranked.empty()) return;
  std::vector<std::size_t> every(deferred_.size());
  std::iota(every.begin(), every.end(), std::size_t{0});
  price_deferred(every);
  deferred_.clear();
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

void Ranking::add_priced(const std::vector<std::vector<Candidate>>& proposals) {
  std::vector<Evaluation> evaluations(proposals.size());
  in_parallel(proposals.size(), threads_, [&](std::size_t i) {
    for (const Candidate& variant : proposals[i]) {
      evaluations[i] = evaluate(problem_, variant, Depth::Extrapolation);
      if (!evaluations[i].infeasibility) return;
    }
  });
  for (Evaluation& e : evaluations) {
    if (e.infeasibility) {
      ++result_.rejected[e.infeasibility->text];
    } else {
      result_.ranked.push_back(std::move(e.evaluated));
    }
  }
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
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(0, space_.most_simulated - result_.simulated));
  const auto is_beaten = [&](std::size_t i) { return best_ && ranked[i].estimate.lower_bound >= best_->seconds(); };
  const auto simulate = [&](std::span<const std::size_t> items) {
    in_parallel(items.size(), threads_, [&](std::size_t k) {
      Evaluated& e = ranked[items[k]];
      e.makespan = simulated_makespan(problem_, e.candidate);
    });
    result_.simulated += std::ssize(items);
    for (const std::size_t i : items) best_ = std::min(best_.value_or(*ranked[i].makespan), *ranked[i].makespan);
  };
  in_rounds(std::move(waiting), most, is_beaten, simulate,
            [&](std::size_t left) { tell(2 * ranked.size() - left, 2 * ranked.size()); });
}

void Ranking::evaluate_deferred() {
  std::stable_sort(deferred_.begin(), deferred_.end(),
                   [](const Deferred& a, const Deferred& b) { return a.bound < b.bound; });
  std::vector<std::size_t> waiting(deferred_.size());
  std::iota(waiting.begin(), waiting.end(), std::size_t{0});
  std::vector<bool> is_priced(deferred_.size(), false);
  in_rounds(
      std::move(waiting), static_cast<std::size_t>(std::max<std::int64_t>(0, space_.most_deferred)),
      [&](std::size_t i) { return best_ && deferred_[i].bound >= best_->seconds(); },
      [&](std::span<const std::size_t> items) {
        price_deferred(items);
        for (const std::size_t i : items) is_priced[i] = true;
        simulate_best();
      });
  std::vector<Deferred> left;
  for (std::size_t i = 0; i < deferred_.size(); ++i) {
    if (!is_priced[i]) left.push_back(std::move(deferred_[i]));
  }
  deferred_ = std::move(left);
  result_.deferred = std::ssize(deferred_);
  result_.pruned = std::ssize(result_.ranked) + result_.deferred - result_.simulated;
}

/// Moves deferred candidates to the ranked ones.
void Ranking::price_deferred(std::span<const std::size_t> which) {
  std::vector<Evaluated> priced(which.size());
  in_parallel(which.size(), threads_, [&](std::size_t k) {
    priced[k] = evaluate(problem_, deferred_[which[k]].evaluated.candidate, Depth::Extrapolation).evaluated;
  });
  std::move(priced.begin(), priced.end(), std::back_inserter(result_.ranked));
}

void Ranking::tell(std::size_t done, std::size_t total) const {
  if (progress_) progress_(static_cast<std::int64_t>(done), static_cast<std::int64_t>(total));
}

}  // namespace moeplan::planner
