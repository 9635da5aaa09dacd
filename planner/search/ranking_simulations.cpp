// The simulations of a search: which of the ranked candidates are simulated, and when.
#include <algorithm>
#include <numeric>
#include <utility>

#include "model/base/in_parallel.hpp"
#include "planner/search/ranking.hpp"
#include "planner/search/rounds.hpp"

namespace moeplan::planner {

namespace {

constexpr double kClearly = 1.2;  // assumed: a closed form so much longer is not of the fastest candidate

bool has_less_closed_form(const Evaluated& a, const Evaluated& b) {
  return a.estimate.closed_form < b.estimate.closed_form;
}

}  // namespace

/// Simulates the candidate with the least closed form, for a time that bounds can be compared with, and beside it the
/// next one, which will hardly be ruled out.
void Ranking::simulate_front() {
  std::vector<const Evaluated*> front;
  for (const Evaluated& e : result_.ranked) front.push_back(&e);
  const auto end = front.begin() + static_cast<std::ptrdiff_t>(std::min(kSmallRound, front.size()));
  std::partial_sort(front.begin(), end, front.end(),
                    [](const Evaluated* a, const Evaluated* b) { return has_less_closed_form(*a, *b); });
  front.erase(end, front.end());
  if (front.empty() || simulated_early(front.front()->candidate)) return;
  std::vector<const Candidate*> unknown;
  for (const Evaluated* e : front) {
    if (!simulated_early(e->candidate)) unknown.push_back(&e->candidate);
  }
  simulate_early(unknown);
}

/// Whether the simulation of a deferred candidate would take minutes.
bool Ranking::is_too_large(const Candidate& deferred) const {
  return exchange_flows(problem_, deferred) > space_.most_deferred_flows;
}

/// Whether a simulation would take many seconds to confirm that a deferred candidate is slower than the best.
bool Ranking::is_slow_to_rule_out(const Evaluated& priced) const {
  return best_ && exchange_flows(problem_, priced.candidate) > space_.quick_deferred_flows &&
         priced.estimate.closed_form >= kClearly * best_->seconds();
}

/// Simulates the first candidate by closed form or, if deferred, bound, for the same comparison, once that is at most
/// `turn` and below the times known so far; beside it the second one if that is as good as equal and neither is a
/// pipeline, which will be refined: it would have its turn too. Returns whether it did. Those that take many seconds
/// are left out, and in a limited time deferred ones without a pipeline.
bool Ranking::simulate_in_turn(const std::vector<InTurn>& candidates, Seconds turn) {
  constexpr double kAsGood = 1.001;  // assumed
  std::vector<InTurn> ready;
  for (const InTurn& c : candidates) {
    if (c.time > turn) continue;
    const std::int64_t flows = c.is_deferred ? exchange_flows(problem_, *c.candidate) : 0;
    const bool is_in_time = !c.is_deferred || !space_.is_out_of_time || c.candidate->degrees.pp > 1;
    if (is_in_time && flows <= std::min(space_.quick_deferred_flows, space_.most_deferred_flows)) ready.push_back(c);
  }
  std::stable_sort(ready.begin(), ready.end(), [](const InTurn& a, const InTurn& b) { return a.time < b.time; });
  if (ready.empty() || is_slower_than_early(ready.front().time) || is_cut()) return false;
  const auto is_settled = [](const InTurn& c) { return c.candidate->degrees.pp == 1; };
  const bool has_equal = ready.size() > 1 && ready[1].time <= kAsGood * ready[0].time;
  std::vector<const Candidate*> first{ready[0].candidate};
  if (has_equal && is_settled(ready[0]) && is_settled(ready[1])) first.push_back(ready[1].candidate);
  simulate_early(first);
  return true;
}

void Ranking::simulate_early(const std::vector<const Candidate*>& candidates) {
  std::vector<SimTime> makespans(candidates.size());
  const int of_each = threads_of_each(candidates.size(), threads_);
  in_parallel(candidates.size(), threads_,
              [&](std::size_t i) { makespans[i] = simulated_makespan(problem_, *candidates[i], of_each); });
  for (std::size_t i = 0; i < candidates.size(); ++i) early_.emplace_back(*candidates[i], makespans[i]);
}

/// Whether one that was simulated early is at least as fast as this bound.
bool Ranking::is_slower_than_early(Seconds bound) const {
  return std::any_of(early_.begin(), early_.end(), [&](const auto& known) { return bound >= known.second.seconds(); });
}

std::optional<SimTime> Ranking::simulated_early(const Candidate& candidate) const {
  const auto known = std::find_if(early_.begin(), early_.end(), [&](const auto& e) { return e.first == candidate; });
  return known == early_.end() ? std::nullopt : std::optional(known->second);
}

/// The simulated makespan, also of one that was simulated early.
SimTime Ranking::simulated_once(const Candidate& candidate, int threads) const {
  const std::optional<SimTime> early = simulated_early(candidate);
  return early ? *early : simulated_makespan(problem_, candidate, threads);
}

void Ranking::add_simulated(Evaluated evaluated) {
  best_ = std::min(best_.value_or(*evaluated.makespan), *evaluated.makespan);
  ++result_.simulated;
  result_.ranked.push_back(std::move(evaluated));
}

void Ranking::sort_by_closed_form() {
  std::stable_sort(result_.ranked.begin(), result_.ranked.end(), has_less_closed_form);
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
    const int of_each = threads_of_each(items.size(), threads_);
    in_parallel(items.size(), threads_, [&](std::size_t k) {
      Evaluated& e = ranked[items[k]];
      e.makespan = simulated_once(e.candidate, of_each);
    });
    result_.simulated += std::ssize(items);
    for (const std::size_t i : items) best_ = std::min(best_.value_or(*ranked[i].makespan), *ranked[i].makespan);
  };
  in_rounds(std::move(waiting), most, is_beaten, simulate,
            [&](std::size_t left) { tell(2 * ranked.size() - left, 2 * ranked.size()); });
}

/// Simulates the candidate with the least closed form, if that is below the best time.
void Ranking::simulate_next() {
  const auto next = std::min_element(result_.ranked.begin(), result_.ranked.end(), has_less_closed_form);
  if (next->makespan || (best_ && next->estimate.closed_form >= best_->seconds())) return;
  next->makespan = simulated_once(next->candidate, threads_);
  ++result_.simulated;
  best_ = std::min(best_.value_or(*next->makespan), *next->makespan);
}

/// Those that were simulated early come first: others were ruled out by their times. A search that is cut still
/// evaluates one round of pipelines: their stages are simulated by segments, in seconds.
void Ranking::evaluate_deferred() {
  std::stable_sort(deferred_.begin(), deferred_.end(), [&](const Deferred& a, const Deferred& b) {
    const bool is_early = simulated_early(a.evaluated.candidate).has_value();
    return is_early == simulated_early(b.evaluated.candidate).has_value() ? a.bound < b.bound : is_early;
  });
  std::vector<std::size_t> waiting(deferred_.size());
  std::iota(waiting.begin(), waiting.end(), std::size_t{0});
  std::vector<bool> is_priced(deferred_.size(), false), takes_long(deferred_.size(), false);
  bool has_priced = false;
  in_rounds(
      std::move(waiting), static_cast<std::size_t>(std::max<std::int64_t>(0, space_.most_deferred)),
      [&](std::size_t i) {
        if (!best_) return false;
        const bool is_late = is_cut() && (has_priced || deferred_[i].evaluated.candidate.degrees.pp == 1);
        if (is_late || deferred_[i].bound >= best_->seconds()) return true;
        takes_long[i] = is_too_large(deferred_[i].evaluated.candidate);
        return static_cast<bool>(takes_long[i]);
      },
      [&](std::span<const std::size_t> items) {
        std::vector<Evaluated> priced = priced_deferred(items);
        for (std::size_t k = 0; k < items.size(); ++k) {
          const std::optional<SimTime> early = simulated_early(priced[k].candidate);
          takes_long[items[k]] = !early && is_slow_to_rule_out(priced[k]);
          is_priced[items[k]] = !takes_long[items[k]];
          if (takes_long[items[k]]) continue;
          note_priced(priced[k]);
          priced[k].makespan = early;
          early ? add_simulated(std::move(priced[k])) : result_.ranked.push_back(std::move(priced[k]));
        }
        has_priced = true;
        is_cut() ? simulate_next() : simulate_best();
      },
      {}, kSmallRound);
  for (std::size_t i = 0; i < deferred_.size(); ++i) {
    if (takes_long[i] && deferred_[i].bound < best_->seconds()) ++result_.undecided;
  }
  leave_deferred(is_priced);
  result_.deferred = std::ssize(deferred_);
  result_.pruned = std::ssize(result_.ranked) + result_.deferred + result_.unpriced - result_.simulated;
}

}  // namespace moeplan::planner
