// moeplan's own strategy: the best result of all other strategies by the given price, improved by local search.
#include <algorithm>

#include "planner/placement/exact_placement.hpp"
#include "planner/placement/local_search.hpp"
#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

namespace {

constexpr std::size_t kStarts = 3;            // number of placements that are improved
constexpr std::int64_t kSmall = 32;           // experts, up to which the exact least load is a start
constexpr std::int64_t kSmallBudget = 5'000;  // in search nodes: a millisecond at most

struct PlacementOption {
  Placement placement;
  Seconds price;
};

class Auto final : public PlacementStrategy {
 public:
  std::string_view name() const override { return "auto"; }
  std::string_view summary() const override {
    return "the best of all others by layer time, transfers and slots included, improved by local search";
  }

 protected:
  PlacementAnswer answer(const PlacementProblem& problem) const override {
    std::vector<PlacementOption> candidates = others(problem);
    const std::size_t starts = std::min(kStarts, candidates.size());
    PlacementOption best = candidates.front();
    const ExpertColumns columns(problem.counts);
    const SearchTerms terms{problem.devices, problem.current, problem.iterations};
    // The best start gets half of the trials and what the other starts leave over of theirs.
    const std::int64_t trials =
        problem.options.trials.value_or(default_trials(problem.devices.ranks, problem.experts()));
    std::int64_t left = trials;
    for (std::size_t i = starts; i-- > 0;) {
      const std::int64_t share = i == 0 ? left : trials / 2 / static_cast<std::int64_t>(starts - 1);
      ImprovedPlacement found = improve_placement(columns, terms, candidates[i].placement, share);
      left -= found.trials;
      const Seconds price = problem.price ? problem.price_of(found.placement) : found.price;
      if (price < best.price) best = {std::move(found.placement), price};
    }
    return {std::move(best.placement)};
  }

 private:
  /// Priced placements, the cheapest first, of equal ones the earlier in the table; not empty.
  static std::vector<PlacementOption> others(const PlacementProblem& problem) {
    std::vector<PlacementOption> candidates;
    const auto add = [&](Placement placement) {
      for (ExpertPlacement& place : placement.experts) {  // a second copy on a rank is a free slot
        for (ExpertHolder& holder : place.holders) holder.copies = 1;
      }
      for (const PlacementOption& c : candidates) {
        if (c.placement == placement) return;
      }
      const Seconds price = problem.price_of(placement);
      candidates.push_back({std::move(placement), price});
    };
    for (const auto& strategy : placement_strategies()) {
      if (strategy->name() == "auto") continue;
      PlacementAnswer answer = strategy->place(problem);
      if (!answer.placement) continue;
      if (answer.placement->nearest == Nearest::Off) {  // sources may prefer a nearby holder
        for (const Nearest nearest : {Nearest::Node, Nearest::Rank}) add({nearest, answer.placement->experts});
      }
      add(std::move(*answer.placement));
    }
    if (problem.current && !placement_error(*problem.current, problem.devices, problem.experts()))
      add(*problem.current);
    if (problem.experts() <= kSmall) {
      const std::vector<std::int64_t> loads = problem.counts.expert_load();
      add(placement_of_homes(exact_load(loads, problem.devices.ranks, problem.devices.slots, kSmallBudget).homes));
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const PlacementOption& a, const PlacementOption& b) { return a.price < b.price; });
    return candidates;
  }
};

}  // namespace

std::int64_t default_trials(std::int64_t ranks, std::int64_t experts) {
  return std::max<std::int64_t>(600, 2'000'000 / (ranks * experts));
}

std::unique_ptr<PlacementStrategy> make_auto_placement() { return std::make_unique<Auto>(); }

}  // namespace moeplan::planner
