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

constexpr std::size_t kSample = 32;  // about as many candidates that a limited search prices first

struct Parts {
  std::vector<Candidate> sample, pipelines, others;
};

/// The candidates with a pipeline, and those without; before them, if the time is limited, some from all over the list.
Parts parted(const std::vector<Candidate>& candidates, bool is_limited) {
  Parts out;
  const std::size_t stride = is_limited ? candidates.size() / kSample : 0;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& c = candidates[i];
    // One of each `stride`, at changing places, so that no period of the list hides a kind: multiples of the golden
    // ratio, in parts of 2^16.
    const bool is_first = stride > 0 && i % stride == (i / stride * 40503 % 65536) * stride / 65536;
    (is_first ? out.sample : c.degrees.pp > 1 ? out.pipelines : out.others).push_back(c);
  }
  return out;
}

}  // namespace

SearchResult search(const Problem& problem, const SearchSpace& space,
                    const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const KeptThreads threads(space.thread_count());
  const Enumeration all = enumerated(problem, space);
  Ranking ranking(problem, space, all, progress);
  const auto [sample, pipelines, others] = parted(all.feasible, static_cast<bool>(space.is_out_of_time));
  ranking.add(sample);
  ranking.add(pipelines);
  refine_pipelines(ranking);
  ranking.add(others);
  ranking.settle();
  if (ranking.price_deferred_alone()) refine_pipelines(ranking);
  if (!ranking.ranked().empty()) {
    if (!ranking.is_cut()) deduplicate_rows(ranking);
    if (!ranking.is_cut()) vary_strategies(ranking);
    if (!ranking.is_cut()) overlap_microbatches(ranking);
    ranking.sort_by_closed_form();
    ranking.simulate_best();
    ranking.evaluate_deferred();
    if (!ranking.is_cut()) delay_weight_gradients(ranking);
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
