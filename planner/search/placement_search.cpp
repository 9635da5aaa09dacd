#include "planner/search/placement_search.hpp"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "model/base/in_parallel.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/evaluation/prediction.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/ordered.hpp"
#include "planner/search/place_experts.hpp"

namespace moeplan::planner {

namespace {

class Placing {
 public:
  Placing(const ModelSpec& model, const Workload& workload, const Cluster& cluster, const PlacementSpace& space)
      : model_(model), workload_(workload), cluster_(cluster), machines_(cluster), space_(space) {
    threads_ = space.threads > 0 ? space.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    const std::vector<std::size_t> kinds = routing_kinds(model, workload.recorded.has_value());
    kinds_ = static_cast<std::int64_t>(*std::max_element(kinds.begin(), kinds.end())) + 1;
  }

  SearchResult run(SearchResult result) {
    const std::vector<PlacedCandidate> placed = candidates(bases(result));
    std::vector<std::optional<Evaluated>> fits(placed.size());
    in_parallel(placed.size(), threads_, [&](std::size_t i) {
      if (!placed[i].infeasibility) fits[i] = evaluated(placed[i].candidate);
    });
    if (space_.placement) result.ranked.clear();
    for (std::size_t i = 0; i < placed.size(); ++i) {
      ++result.enumerated;
      if (!fits[i]) {
        ++result.rejected[placed[i].infeasibility ? placed[i].infeasibility->text : "memory"];
        continue;
      }
      ++result.simulated;
      result.global_bound = std::min(result.global_bound, fits[i]->estimate.lower_bound);
      result.ranked.push_back(std::move(*fits[i]));
    }
    sort_by_makespan(result.ranked);
    return result;
  }

 private:
  std::vector<Candidate> bases(const SearchResult& result) {
    constexpr std::int64_t kMostAskedFor = 8;
    std::vector<Candidate> out;
    for (const Evaluated& e : result.ranked) {
      if (std::ssize(out) == (space_.placement ? kMostAskedFor : space_.most_placed)) break;
      if (e.makespan && (space_.placement || may_gain(e.candidate))) out.push_back(e.candidate);
    }
    return out;
  }

  bool may_gain(const Candidate& c) {
    if (c.degrees.ep == 1 || c.degrees.ranks_per_stage() > space_.most_ranks) return false;
    return imbalance(placed_layers(model_, workload_, machines_.first_of(c.degrees.pp), c, 0)) > kUnevenLoads;
  }

  /// The distinct placed candidates, without those that equal their base, unless a placement is given.
  std::vector<PlacedCandidate> candidates(const std::vector<Candidate>& bases) {
    std::vector<std::int64_t> redundant{0, 1, 2, 4};
    if (space_.redundant_experts) redundant = {*space_.redundant_experts};
    std::vector<PlacedCandidate> out;
    for (const Candidate& base : bases) {
      const Cluster& stage = machines_.first_of(base.degrees.pp);
      const PlacementGoal goal = goal_within_iteration(kinds_, base, space_.most_ranks);
      std::vector<PlacedCandidate> of_base(redundant.size());
      in_parallel(redundant.size(), threads_, [&](std::size_t i) {
        PlacedCandidate& p = of_base[i];
        p = with_placement(model_, workload_, stage, base, space_.placement.value_or("auto"), redundant[i], goal);
        if (p.infeasibility) return;
        p.infeasibility = infeasibility(model_, workload_, p.candidate, cluster_.ranks_per_node());
      });
      for (std::size_t i = 0; i < of_base.size(); ++i) {
        const bool is_known = std::any_of(of_base.begin(), of_base.begin() + static_cast<std::ptrdiff_t>(i),
                                          [&](const PlacedCandidate& o) {
                                            return o.infeasibility == of_base[i].infeasibility &&
                                                   o.candidate.expert_places == of_base[i].candidate.expert_places;
                                          });
        const bool is_as_before = !of_base[i].infeasibility && holds_contiguous_experts(of_base[i].candidate);
        if (!is_known && (!is_as_before || space_.placement)) out.push_back(of_base[i]);
      }
    }
    return out;
  }

  /// The simulated candidate; none if it does not fit.
  std::optional<Evaluated> evaluated(const Candidate& c) {
    Evaluated e{.candidate = c, .memory = {}, .estimate = {}, .makespan = {}};
    const Program program = lowered(model_, workload_, machines_, c);
    e.memory = iteration_memory(model_, workload_, cluster_, c, program);
    if (e.memory.total() > cluster_.memory_per_rank()) return std::nullopt;
    e.estimate = estimate(program, machines_);
    e.makespan = simulated(program, machines_, /*keep_spans=*/false).makespan;
    return e;
  }

  const ModelSpec& model_;
  const Workload& workload_;
  const Cluster& cluster_;
  StageClusters machines_;
  const PlacementSpace& space_;
  int threads_ = 1;
  std::int64_t kinds_ = 0;
};

}  // namespace

SearchResult with_placed_experts(SearchResult result, const ModelSpec& model, const Workload& workload,
                                 const Cluster& cluster, const PlacementSpace& space) {
  if (model.num_moe_layers() == 0 || space.placement == kContiguous) return result;
  return Placing(model, workload, cluster, space).run(std::move(result));
}

}  // namespace moeplan::planner
