#include "planner/search/search.hpp"

#include <utility>

#include "planner/search/enumeration.hpp"
#include "planner/search/global_bound.hpp"
#include "planner/search/placement_search.hpp"
#include "planner/search/ranking.hpp"
#include "planner/search/variants.hpp"

namespace moeplan::planner {

SearchResult search(const Problem& problem, const SearchSpace& space,
                    const std::function<void(std::int64_t, std::int64_t)>& progress) {
  Ranking ranking(problem, space, progress);
  ranking.add_all(enumerated(problem, space));
  if (!ranking.ranked().empty()) {
    refine_pipelines(ranking);
    vary_strategies(ranking);
    ranking.sort_by_closed_form();
    ranking.simulate_best();
    ranking.evaluate_deferred();
    vary_kinds(ranking);
    SearchResult& result = ranking.result();
    result.global_bound = global_bound(problem, space, result.ranked, ranking.deferred());
    search_orders(ranking);
    place_experts(ranking);
  }
  return std::move(ranking.result());
}

}  // namespace moeplan::planner
