#include "planner/search/variants.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "model/base/in_parallel.hpp"
#include "planner/frameworks/supported.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/layer_search.hpp"
#include "planner/search/strategies_by_kind.hpp"

namespace moeplan::planner {

namespace {

LayerSpace layer_space(const SearchSpace& space) {
  return {.schedule = space.schedule,
          .all_to_all = space.all_to_all,
          .codec = space.codec,
          .pipeline_degree = space.pipeline_degree,
          .framework = space.framework ? &*space.framework : nullptr};
}

/// Shapes and numbers of parts per stage.
std::vector<std::pair<PipelineShape, std::int64_t>> cuts_of(const Problem& problem, const SearchSpace& space,
                                                            const Candidate& base) {
  std::vector<std::pair<PipelineShape, std::int64_t>> out{{base.pipeline, base.virtual_stages}};
  if (base.pipeline == PipelineShape::V || !space.layout.empty()) return out;
  for (std::int64_t parts = 1; parts * base.degrees.pp <= problem.model().num_layers(); parts *= 2) {
    if (parts != base.virtual_stages && !space.virtual_stages) out.emplace_back(PipelineShape::Interleaved, parts);
    if (parts == kPartsOfV && !space.pipeline && space.virtual_stages.value_or(kPartsOfV) == kPartsOfV)
      out.emplace_back(PipelineShape::V, kPartsOfV);
  }
  return out;
}

/// The candidate with other micro batches, shapes and numbers of parts per stage.
std::vector<Candidate> pipelines_like(const Problem& problem, const SearchSpace& space, const Candidate& base) {
  const Workload& workload = problem.workload();
  std::vector<Candidate> out;
  for (const auto& [shape, parts] : cuts_of(problem, space, base)) {
    for (const std::int64_t micro_batch : micro_batches(workload, base.degrees)) {
      Candidate c = base;
      c.pipeline = shape;
      c.virtual_stages = parts;
      c.micro_batch = micro_batch;
      // A pipeline needs many microbatches: with fewer than one per stage it is mostly idle.
      if (c == base || workload.global_batch / c.degrees.dp / micro_batch < c.degrees.pp) continue;
      if (space.framework && unsupported(*space.framework, c, problem.ranks_per_node())) continue;
      out.push_back(std::move(c));
    }
  }
  return out;
}

/// The candidate, then with more and more recomputation, if it does not fit.
std::vector<Candidate> until_it_fits(const Ranking& ranking, const Candidate& candidate) {
  const SearchSpace& space = ranking.space();
  std::vector<Candidate> out;
  bool is_enough = false;
  for (const Recompute& level : recompute_levels(ranking.problem(), space)) {
    is_enough = is_enough || level == candidate.recompute;
    Candidate c = candidate;
    c.recompute = level;
    const bool is_run = !space.framework || !unsupported(*space.framework, c, ranking.problem().ranks_per_node());
    if (is_enough && is_run) out.push_back(std::move(c));
  }
  return out;
}

/// The fastest strategies of the candidate's MoE layer alone.
FastestStrategies fastest_of_layer(const Ranking& ranking, const Candidate& base, int threads) {
  constexpr std::size_t kTaken = 3;
  const Problem& problem = ranking.problem();
  const Cluster& stage = problem.first_stage(base);
  const Candidate one_stage = stage_alone(base);
  const LayerProblem layer =
      layer_problem(problem.model(), problem.workload(), std::get<Moe>(problem.first_moe_layer()->ffn), one_stage,
                    stage, ranking.space().asymmetric_rank_threshold);
  const std::vector<LayerStrategy> all = layer_strategies(row_columns(problem.model()), problem.workload(), one_stage,
                                                          stage.ranks_per_node(), layer_space(ranking.space()));
  return fastest_strategies(all, layer, kTaken, threads);
}

/// What the strategies of a candidate's MoE layer alone depend on, whatever its own strategy and, where they do not
/// matter, the numbers of its replicas and stages.
Candidate layer_alone(Ranking& ranking, const Candidate& base) {
  return ranking.common_work().with_links_on_fewest_ranks(LayerStrategy{}.in(stage_alone(base)));
}

/// The simulated candidates whose orders of operations are searched: the `most` fastest and, since blocks of two
/// microbatches have the most orders, the fastest whose microbatches overlap. `ranked` is sorted by makespan.
std::vector<std::size_t> to_order(const std::vector<Evaluated>& ranked, std::int64_t simulated, std::int64_t most) {
  std::vector<std::size_t> which;
  bool has_overlap = most == 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(simulated); ++i) {
    const bool overlaps = ranked[i].candidate.ep_overlap;
    if (std::ssize(which) >= most && (has_overlap || !overlaps)) continue;
    which.push_back(i);
    has_overlap = has_overlap || overlaps;
  }
  return which;
}

/// Records the result of the order search; returns the candidate with the order found if it fits in memory and its
/// simulation is faster.
std::optional<Evaluated> with_searched_order(const Problem& problem, Evaluated& listed) {
  Program program = lower_iteration(problem.model(), problem.workload(), listed.candidate, problem.ranks_per_node());
  SearchedOrder found = searched_order(program, problem.stage_clusters());
  listed.order = found.search;
  if (found.search.improved == 0) return std::nullopt;
  Candidate c = listed.candidate;
  c.order = OperationOrder::Searched;
  Evaluation e = evaluate_program(problem, c, std::move(found.program), Depth::Makespan);
  if (e.infeasibility || !(*e.evaluated.makespan < *listed.makespan)) return std::nullopt;
  e.evaluated.order = found.search;
  return std::move(e.evaluated);
}

}  // namespace

void refine_pipelines(Ranking& ranking) {
  constexpr std::int64_t kRefinedIfCut = 2;
  const Problem& problem = ranking.problem();
  SearchResult& result = ranking.result();
  ranking.sort_by_closed_form();
  std::vector<Candidate> pipelines;
  const std::int64_t all = ranking.space().most_refined, most = ranking.is_cut() ? std::min(all, kRefinedIfCut) : all;
  std::int64_t refined = 0;
  for (const Evaluated& e : result.ranked) {
    if (e.candidate.degrees.pp == 1 || refined == most) continue;
    ++refined;
    std::ranges::move(pipelines_like(problem, ranking.space(), e.candidate), std::back_inserter(pipelines));
  }
  std::vector<std::optional<Infeasibility>> infeasible(pipelines.size());
  in_parallel(pipelines.size(), ranking.threads(), [&](std::size_t i) {
    infeasible[i] = evaluate(problem, pipelines[i], Depth::Feasibility).infeasibility;
  });
  const Recompute least = recompute_levels(problem, ranking.space()).front();
  std::vector<std::vector<Candidate>> proposals;
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    ++result.enumerated;
    if (infeasible[i]) {
      ++result.rejected[infeasible[i]->text];
      continue;
    }
    pipelines[i].recompute = least;
    proposals.push_back(until_it_fits(ranking, pipelines[i]));
  }
  ranking.add_priced(proposals, {}, /*even_if_cut=*/true);
}

void deduplicate_rows(Ranking& ranking) {
  const Problem& problem = ranking.problem();
  const SearchSpace& space = ranking.space();
  ranking.sort_by_closed_form();
  std::vector<std::vector<Candidate>> proposals;
  for (const Evaluated& e : ranking.ranked()) {
    if (std::ssize(proposals) == space.most_refined) break;
    std::optional<Candidate> c = with_deduplicated_rows(problem, space, e.candidate);
    if (c) proposals.push_back(until_it_fits(ranking, *c));
  }
  ranking.result().enumerated += std::ssize(proposals);
  ranking.add_priced(proposals);
}

void vary_strategies(Ranking& ranking) {
  if (ranking.problem().model().num_moe_layers() == 0) return;
  ranking.sort_by_closed_form();
  std::vector<Candidate> bases;
  for (const Evaluated& e : ranking.ranked()) {
    const Candidate& c = e.candidate;
    const bool is_new = std::none_of(bases.begin(), bases.end(), [&](const Candidate& b) {
      return b.degrees == c.degrees && b.rank_order == c.rank_order && b.sequence_parallel == c.sequence_parallel;
    });
    if (is_new && c.degrees.ep > 1 && std::ssize(bases) < ranking.space().most_varied) bases.push_back(c);
  }
  std::vector<Candidate> layers;
  std::vector<std::size_t> layer_of, first_with;  // of each base; the first base of each layer
  for (std::size_t i = 0; i < bases.size(); ++i) {
    const Candidate layer = layer_alone(ranking, bases[i]);
    const auto known = std::find(layers.begin(), layers.end(), layer);
    layer_of.push_back(static_cast<std::size_t>(known - layers.begin()));
    if (known != layers.end()) continue;
    layers.push_back(layer);
    first_with.push_back(i);
  }
  std::vector<FastestStrategies> fastest(layers.size());
  // Side by side if every thread has several, otherwise one after the other, each by all threads.
  const int threads = ranking.threads(), beside = std::ssize(layers) >= 4 * threads ? threads : 1;
  in_parallel(layers.size(), beside,
              [&](std::size_t l) { fastest[l] = fastest_of_layer(ranking, bases[first_with[l]], threads / beside); });
  std::vector<std::vector<Candidate>> proposals;
  for (std::size_t i = 0; i < bases.size(); ++i) {
    const FastestStrategies& of_layer = fastest[layer_of[i]];
    ranking.result().undecided_strategies += of_layer.undecided;
    for (const PricedStrategy& p : of_layer.fastest) {  // those that are faster than its own
      if (p.run == LayerStrategy::of(bases[i])) break;
      proposals.push_back(until_it_fits(ranking, p.run.in(bases[i])));
    }
  }
  ranking.result().enumerated += std::ssize(proposals);
  ranking.add_priced(proposals);
}

void overlap_microbatches(Ranking& ranking) {
  const SearchSpace& space = ranking.space();
  if (space.ep_overlap) return;
  std::vector<std::vector<Candidate>> proposals;
  std::vector<Seconds> of_links;  // which carry as much of equal microbatches, in whatever order
  for (const Evaluated& e : ranking.ranked()) {
    Candidate c = e.candidate;
    c.ep_overlap = true;
    c.delays_weight_gradients = space.delays_weight_gradients.value_or(false);
    // Without a pipeline the micro batch is the largest that fits, which may leave no microbatches that could overlap.
    std::vector<std::int64_t> sizes{c.micro_batch};
    if (c.degrees.pp == 1) sizes = micro_batches(ranking.problem().workload(), c.degrees);
    for (const std::int64_t size : sizes) {
      c.micro_batch = size;
      if (size > e.candidate.micro_batch || !may_overlap(ranking.problem(), space, c)) continue;
      proposals.push_back(until_it_fits(ranking, c));
      of_links.push_back(size == e.candidate.micro_batch ? e.estimate.links : Seconds());
    }
  }
  ranking.result().enumerated += std::ssize(proposals);
  ranking.add_priced(proposals, of_links);
}

void delay_weight_gradients(Ranking& ranking) {
  if (ranking.space().delays_weight_gradients || !ranking.has_simulated()) return;
  sort_by_makespan(ranking.result().ranked);
  const std::vector<Evaluated>& ranked = ranking.ranked();
  const auto fastest = std::ranges::find_if(ranked, [](const Evaluated& e) { return e.candidate.ep_overlap; });
  if (fastest == ranked.end() || !fastest->makespan) return;
  if (fastest->estimate.lower_bound >= ranked.front().makespan->seconds()) return;
  Candidate c = fastest->candidate;
  c.delays_weight_gradients = true;
  if (!may_overlap(ranking.problem(), ranking.space(), c)) return;
  Evaluation e = evaluate(ranking.problem(), c, Depth::Makespan, {.threads = ranking.threads()});
  if (e.infeasibility) return;
  ++ranking.result().enumerated;
  ranking.add_simulated(std::move(e.evaluated));
}

void vary_kinds(Ranking& ranking) {
  const Problem& problem = ranking.problem();
  if (problem.layer_kinds() < 2 || !ranking.has_simulated() || ranking.space().framework) return;
  sort_by_makespan(ranking.result().ranked);
  Candidate c = ranking.ranked().front().candidate;
  if (c.degrees.ep == 1) return;
  c.runs =
      strategies_by_kind(problem.model(), problem.workload(), problem.first_stage(c), c, layer_space(ranking.space()),
                         ranking.space().asymmetric_rank_threshold, ranking.threads());
  if (c.runs.empty()) return;
  Evaluation e = evaluate(problem, c, Depth::Extrapolation);
  if (e.infeasibility) return;
  e.evaluated.makespan = simulated_makespan(problem, c, ranking.threads());
  ++ranking.result().enumerated;
  ranking.add_simulated(std::move(e.evaluated));
}

void search_orders(Ranking& ranking) {
  SearchResult& result = ranking.result();
  const std::optional<Framework>& framework = ranking.space().framework;
  if (framework && !framework->has(FrameworkDecision::Orders, name_of(OperationOrder::Searched))) return;
  const std::vector<std::size_t> which = to_order(result.ranked, result.simulated, ranking.space().most_ordered);
  std::vector<std::optional<Evaluated>> faster(which.size());
  in_parallel(which.size(), ranking.threads(),
              [&](std::size_t i) { faster[i] = with_searched_order(ranking.problem(), result.ranked[which[i]]); });
  for (std::optional<Evaluated>& e : faster) {
    if (!e) continue;
    ++result.enumerated;
    result.global_bound = std::min(result.global_bound, e->estimate.lower_bound);
    ranking.add_simulated(std::move(*e));
  }
  sort_by_makespan(result.ranked);
}

}  // namespace moeplan::planner
