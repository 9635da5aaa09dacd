#include "planner/search/search.hpp"

#include <utility>

#include "model/base/in_parallel.hpp"
#include "planner/search/enumeration.hpp"
#include "planner/search/global_bound.hpp"
#include "planner/search/placement_search.hpp"
#include "planner/search/ranking.hpp"
#include "planner/search/variants.hpp"

namespace moeplan::planner {

namespace {

/// The candidates with a pipeline, and those without.
std::pair<std::vector<Candidate>, std::vector<Candidate>> by_pipeline(const std::vector<Candidate>& candidates) {
  std::pair<std::vector<Candidate>, std::vector<Candidate>> out;
  for (const Candidate& c : candidates) (c.degrees.pp > 1 ? out.first : out.second).push_back(c);
  return out;
}

}  // namespace

SearchResult search(const Problem& problem, const SearchSpace& space,
                    const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const KeptThreads threads(space.thread_count());
  const Enumeration all = enumerated(problem, space);
  Ranking ranking(problem, space, all, progress);
  const auto [pipelines, others] = by_pipeline(all.feasible);
  ranking.add(pipelines);
  if (!ranking.is_cut()) refine_pipelines(ranking);
  ranking.add(others);
  ranking.settle();
  if (ranking.price_deferred_alone()) refine_pipelines(ranking);
  if (!ranking.ranked().empty()) {
    if (!ranking.is_cut()) vary_strategies(ranking);
    ranking.sort_by_closed_form();
    ranking.simulate_best();
    ranking.evaluate_deferred();
    if (!ranking.is_cut()) vary_kinds(ranking);
    if (space.wants_global_bound) ranking.result().global_bound = global_bound(ranking);
    sort_by_makespan(ranking.result().ranked);
    if (!ranking.is_cut()) search_orders(ranking);
    const bool is_placement_fixed = space.placements && space.placements->placement;
    if (!ranking.is_cut() || is_placement_fixed) place_experts(ranking);
  }
  return std::move(ranking.result());
}

}  // namespace moeplan::planner
