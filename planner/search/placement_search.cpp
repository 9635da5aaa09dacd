#include "planner/search/placement_search.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/base/in_parallel.hpp"
#include "planner/search/place_experts.hpp"

namespace moeplan::planner {

namespace {

class PlacementRound {
 public:
  PlacementRound(Ranking& ranking, const PlacementSpace& space)
      : problem_(ranking.problem()), ranking_(ranking), space_(space) {}

  /// The first strategy of the framework that moves experts, or auto.
  [[nodiscard]] PlacementChoice usual_strategy() const {
    if (!ranking_.space().framework) return "auto";
    for (const std::string& name : placement_names()) {
      if (name != kContiguous && ranking_.space().framework->has(FrameworkDecision::Placements, name)) return name;
    }
    return kContiguous;
  }

  void run() {
    SearchResult& result = ranking_.result();
    const std::vector<PlacedCandidate> placed = candidates(bases(result));
    std::vector<Evaluation> evaluations(placed.size());
    in_parallel(placed.size(), ranking_.threads(), [&](std::size_t i) {
      if (placed[i].infeasibility) {
        evaluations[i].infeasibility = placed[i].infeasibility;
      } else {
        evaluations[i] = evaluate(problem_, placed[i].candidate, Depth::Makespan);
      }
    });
    if (space_.placement) result.ranked.clear();
    for (Evaluation& e : evaluations) {
      ++result.enumerated;
      if (e.infeasibility) {
        ++result.rejected[e.infeasibility->text];
        continue;
      }
      result.global_bound = std::min(result.global_bound, e.evaluated.estimate.lower_bound);
      ranking_.add_simulated(std::move(e.evaluated));
    }
    sort_by_makespan(result.ranked);
  }

 private:
  /// The fastest candidate of each idea.
  std::vector<Candidate> bases(const SearchResult& result) {
    constexpr std::int64_t kMostAskedFor = 8;
    std::vector<Candidate> out;
    for (const Evaluated& e : result.ranked) {
      if (std::ssize(out) == (space_.placement ? kMostAskedFor : space_.most_placed)) break;
      const bool is_new = std::ranges::none_of(out, [&](const Candidate& c) { return is_same_idea(c, e.candidate); });
      if (e.makespan && is_new && (space_.placement || may_gain(e.candidate))) out.push_back(e.candidate);
    }
    return out;
  }

  bool may_gain(const Candidate& c) {
    if (c.degrees.ep == 1 || c.degrees.ranks_per_stage() > space_.most_ranks) return false;
    return imbalance(placed_layers(problem_.model(), problem_.workload(), problem_.first_stage(c), c, 0)) >
           kUnevenLoads;
  }

  /// The distinct placed candidates, without those that equal their base, unless a placement is given.
  std::vector<PlacedCandidate> candidates(const std::vector<Candidate>& bases) {
    std::vector<std::int64_t> redundant{0, 1, 2, 4};
    if (space_.redundant_experts) redundant = {*space_.redundant_experts};
    std::vector<PlacedCandidate> out;
    for (const Candidate& base : bases) {
      std::vector<PlacedCandidate> of_base(redundant.size());
      in_parallel(redundant.size(), ranking_.threads(),
                  [&](std::size_t i) { of_base[i] = placed(base, redundant[i]); });
      for (auto p = of_base.begin(); p != of_base.end(); ++p) {
        const bool is_known = std::any_of(of_base.begin(), p, [&](const PlacedCandidate& o) {
          return o.infeasibility == p->infeasibility && o.candidate.expert_places == p->candidate.expert_places;
        });
        const bool is_as_before = !p->infeasibility && holds_contiguous_experts(p->candidate);
        if (!is_known && (!is_as_before || space_.placement)) out.push_back(*p);
      }
    }
    return out;
  }

  PlacedCandidate placed(const Candidate& base, std::int64_t redundant) const {
    const PlacementChoice strategy = space_.placement.value_or(usual_strategy());
    const PlacementGoal goal = goal_within_iteration(problem_.layer_kinds(), base, space_.most_ranks);
    PlacedCandidate p = with_placement(problem_.model(), problem_.workload(), problem_.first_stage(base), base,
                                       strategy, redundant, goal);
    if (!p.infeasibility) p.infeasibility = evaluate(problem_, p.candidate, Depth::Feasibility).infeasibility;
    return p;
  }

  const Problem& problem_;
  Ranking& ranking_;
  const PlacementSpace& space_;
};

}  // namespace

void place_experts(Ranking& ranking) {
  const std::optional<PlacementSpace>& space = ranking.space().placements;
  if (!space || ranking.problem().model().num_moe_layers() == 0 || space->placement == kContiguous) return;
  PlacementRound round(ranking, *space);
  if (space->placement || round.usual_strategy() != kContiguous) round.run();
}

}  // namespace moeplan::planner
