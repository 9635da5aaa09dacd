#include "planner/request/plan_request.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <numeric>

#include "model/base/in_parallel.hpp"
#include "model/base/whole_numbers.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/placement/strategies/strategy.hpp"
#include "planner/plan/fixed_decisions.hpp"
#include "planner/search/search.hpp"

namespace moeplan::planner {

namespace {

std::optional<std::int64_t> given(std::int64_t value) { return value > 0 ? std::optional(value) : std::nullopt; }

SearchSpace search_space(const PlanRequest& r) {
  Diagnostics wrong;
  std::vector<std::string> names;
  for (const auto& s : schedules()) names.emplace_back(s->name());
  if (!r.schedule.empty() && !find_schedule(r.schedule)) {
    wrong.add({"--schedule"}, "",
              fmt::format("{} is not known{}", in_quotes(r.schedule), suggestion(r.schedule, names)));
  }
  if (!r.all_to_all.empty() && !find_all_to_all(r.all_to_all)) {
    wrong.add({"--all-to-all"}, "",
              fmt::format("{} is not known{}", in_quotes(r.all_to_all), suggestion(r.all_to_all, all_to_all_names())));
  }
  if (const AllToAll* named = find_all_to_all(r.all_to_all);
      r.dispatcher_sms > 0 && (!named || !named->is_dispatcher()))
    wrong.add({"--dispatcher-sms"}, "", "is for a dispatcher; expected e.g. --dispatcher deepep");
  if (!r.codec.empty() && !parse_codec_pair(r.codec)) wrong.add({"--codec"}, "", codec_pair_error(r.codec));
  if (!find_placement_strategy(r.placement)) {
    wrong.add({"--placement"}, "",
              fmt::format("{} is not known{}", in_quotes(r.placement), suggestion(r.placement, placement_names())));
  }
  SearchSpace space;
  if (!r.layout.empty()) {
    const auto layout = parse_layout(r.layout);
    if (const auto* error = std::get_if<std::string>(&layout)) wrong.add({"--layout"}, "", *error);
    if (const auto* parts = std::get_if<PipelineLayout>(&layout)) space.layout = *parts;
  }
  space.pipeline = named<PipelineShape>(kPipelineShapeNames, r.pipeline);
  if (!r.pipeline.empty() && !space.pipeline)
    wrong.add({"--pipeline"}, "", fmt::format("{} is not known; one of interleaved, v", in_quotes(r.pipeline)));
  if (space.pipeline == PipelineShape::V && r.vp > 0 && r.vp != kPartsOfV)
    wrong.add({"--vp"}, "", fmt::format("is {}; stages in a V have {} parts each", r.vp, kPartsOfV));
  if (r.delay_wgrad.value_or(false) && !r.ep_overlap.value_or(false))
    wrong.add({"--delay-wgrad"}, "", "delays what overlaps; expected --ep-overlap too");
  if (!r.recompute.empty() && r.recompute != "auto" && !parse_recompute(r.recompute))
    wrong.add({"--recompute"}, "", recompute_error(r.recompute));
  wrong.throw_if_any();
  if (!r.schedule.empty()) space.schedule = r.schedule;
  if (!r.all_to_all.empty()) space.all_to_all = r.all_to_all;
  space.codec = parse_codec_pair(r.codec);
  space.pipeline_degree = given(r.pipeline_degree);
  space.tp = given(r.tp);
  space.cp = given(r.cp);
  space.pp = given(r.pp);
  space.ep = given(r.ep);
  space.esp = given(r.esp);
  space.dp = given(r.dp);
  space.virtual_stages = given(r.vp);
  if (r.sp) space.sequence_parallel = *r.sp == 1;
  space.ep_overlap = r.ep_overlap;
  space.delays_weight_gradients = r.delay_wgrad;
  space.dispatcher_sms = r.dispatcher_sms;
  if (!r.framework.empty()) space.framework = load_framework(r.framework);
  space.threads = r.threads;
  space.most_simulated = r.budget;
  space.placements = {.placement = r.placement == "auto" ? std::nullopt : std::optional(PlacementChoice(r.placement)),
                      .redundant_experts = r.redundant_experts};
  return space;
}

/// Degrees that the user fixed and that no division of the GPUs can have.
void check_degrees(const PlanRequest& r, std::int64_t world) {
  Diagnostics wrong;
  const auto check = [&](const char* name, std::int64_t product, const std::string& what) {
    if (product > 0 && world % product != 0) {
      wrong.add({name}, "", fmt::format("{} does not divide the {} GPUs", what, world));
    }
  };
  check("--tp", r.tp, fmt::format("{}", r.tp));
  check("--cp", r.cp, fmt::format("{}", r.cp));
  check("--pp", r.pp, fmt::format("{}", r.pp));
  check("--dp", r.dp, fmt::format("{}", r.dp));
  check("--ep", r.ep, fmt::format("{}", r.ep));
  check("--etp", r.esp, fmt::format("{}", r.esp));
  const auto together = [&](const char* names, std::initializer_list<std::int64_t> degrees) {
    std::int64_t product = 1;
    std::string text;
    for (const std::int64_t d : degrees) {
      if (d == 0) continue;
      product *= d;
      text += fmt::format("{}{}", text.empty() ? "" : " x ", d);
      if (product > world) break;
    }
    if (wrong.empty()) check(names, product, text);
    return product;
  };
  const bool all_given = r.tp > 0 && r.cp > 0 && r.dp > 0 && r.pp > 0;
  const std::int64_t dense = together("--pp, --dp, --cp, --tp", {r.pp, r.dp, r.cp, r.tp});
  if (wrong.empty() && all_given && dense != world) {
    wrong.add({"--pp, --dp, --cp, --tp"}, "",
              fmt::format("{} x {} x {} x {} is not the {} GPUs", r.pp, r.dp, r.cp, r.tp, world));
  }
  (void)together("--pp, --ep, --etp", {r.pp, r.ep, r.esp});
  wrong.throw_if_any();
}

/// A layout says where the layers of multi-token prediction are, and whether there are any.
void check_layout(const PipelineLayout& layout, const Workload& workload) {
  if (layout.empty() || workload.mtp_layers == 0 || workload.mtp_layers == layout.mtp_layers()) return;
  throw InputError({{"--layout"},
                    "",
                    fmt::format("has {} layers of multi-token prediction (m), and workload.mtp_layers is {}",
                                layout.mtp_layers(), workload.mtp_layers)});
}

/// Decisions that the user fixed and that the framework does not have.
void check_decisions(const PlanRequest& r, const Framework& framework) {
  Diagnostics wrong;
  const auto check = [&](const char* option, FrameworkDecision decision, const std::string& value) {
    if (value.empty() || framework.has(decision, value)) return;
    std::vector<std::string> names;
    if (const auto of = framework.values.find(decision); of != framework.values.end()) {
      for (const auto& [name, theirs] : of->second) names.push_back(name);
    }
    wrong.add({option}, "",
              fmt::format("{} is not in {}; it has {}", in_quotes(value), framework.text(),
                          names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  };
  check("--schedule", FrameworkDecision::Schedules, r.schedule);
  check("--all-to-all", FrameworkDecision::AllToAlls, r.all_to_all);
  check("--placement", FrameworkDecision::Placements, r.placement == "auto" ? "" : r.placement);
  if (r.pipeline != name_of(PipelineShape::Interleaved)) check("--pipeline", FrameworkDecision::Pipelines, r.pipeline);
  if (r.ep_overlap.value_or(false)) check("--ep-overlap", FrameworkDecision::Overlaps, "ep_overlap");
  if (r.delay_wgrad.value_or(false)) check("--delay-wgrad", FrameworkDecision::Overlaps, "delay_wgrad");
  wrong.throw_if_any();
}

/// The fastest candidate of any schedule, all-to-all, codec and order on the degrees of the framework's best one, if it
/// is faster: what one would have to implement.
std::optional<Evaluated> beyond_framework(const Problem& problem, SearchSpace space, const Evaluated& best) {
  const Candidate& c = best.candidate;
  space.framework = std::nullopt;
  space.schedule = std::nullopt;
  space.all_to_all = std::nullopt;
  space.codec = std::nullopt;
  space.pipeline_degree = std::nullopt;
  space.tp = c.degrees.tp;
  space.cp = c.degrees.cp;
  space.ep = c.degrees.ep;
  space.esp = c.degrees.esp;
  space.dp = c.degrees.dp;
  space.pp = c.degrees.pp;
  space.virtual_stages = c.virtual_stages;
  space.pipeline = c.pipeline;
  space.sequence_parallel = c.sequence_parallel;
  space.placements = std::nullopt;
  SearchResult all = search(problem, space);
  if (all.ranked.empty() || !all.ranked.front().makespan || *all.ranked.front().makespan >= *best.makespan)
    return std::nullopt;
  return std::move(all.ranked.front());
}

/// The overrides of -C, and those that other options stand in for.
std::vector<std::string> overrides_of(const PlanRequest& r, const std::optional<Framework>& framework) {
  std::vector<std::string> overrides;
  if (framework) overrides = framework->overrides;
  overrides.insert(overrides.end(), r.overrides.begin(), r.overrides.end());
  if (!r.precision.empty()) {
    if (named<Dtype>(kDtypeNames, r.precision)) overrides.push_back("workload.dtype=" + r.precision);
    overrides.push_back("workload.precision=" + r.precision);
  }
  for (const auto& [key, value] : {std::pair{"micro_batch", given(r.micro_batch)}, std::pair{"zero_stage", r.zero}}) {
    if (value) overrides.push_back(fmt::format("workload.{}={}", key, *value));
  }
  if (!r.recompute.empty()) overrides.push_back("workload.recompute=" + r.recompute);
  if (r.seed) overrides.push_back(fmt::format("workload.routing.seed={}", *r.seed));
  return overrides;
}

/// Whether the global batch is that of the default workload, not a chosen one.
bool has_default_batch(const PlanRequest& r, const PlanInputs& documents) {
  const Node* batch = documents.workload.find("global_batch");
  return r.workload == PlanRequest{}.workload && batch && batch->where.file == documents.workload_source;
}

/// Makes the default global batch one that the ranks can be divided for, the least from its value on. With more ranks
/// than any machine has had it stays, which soon turns out to be too small: a search with as many sequences takes long.
void fit_default_batch(PlanInputs& documents, Inputs& inputs, std::int64_t ranks) {
  constexpr std::int64_t kMostRanks = 131'072;
  if (ranks > kMostRanks) return;
  const std::int64_t batch = inputs.workload.global_batch, fitting = ceil_div(batch, ranks) * ranks;
  if (fitting == batch) return;
  apply_overrides(documents, {fmt::format("workload.global_batch={}", fitting)});
  inputs = read_inputs(documents);
}

/// Sorts the plans shown, of which the search did not simulate all, by their predicted makespans.
void sort_by_prediction(PlanAnswer& answer) {
  std::vector<std::size_t> order(answer.predictions.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return answer.predictions[a].makespan < answer.predictions[b].makespan;
  });
  std::vector<Evaluated> ranked;
  std::vector<Prediction> predictions;
  for (const std::size_t i : order) {
    ranked.push_back(std::move(answer.result.ranked[i]));
    predictions.push_back(std::move(answer.predictions[i]));
  }
  std::move(ranked.begin(), ranked.end(), answer.result.ranked.begin());
  answer.predictions = std::move(predictions);
}

}  // namespace

PlanJob load_job(const PlanRequest& r) {
  SearchSpace space = search_space(r);
  if (space.framework) check_decisions(r, *space.framework);
  PlanInputs documents = load_inputs(r.cluster, r.model, r.workload, overrides_of(r, space.framework),
                                     r.approximates ? UnknownFamilies::Approximated : UnknownFamilies::Refused);
  Inputs inputs = read_inputs(documents);
  if (space.framework) settle_for_framework(*space.framework, documents, inputs);
  Cluster cluster = build_cluster_of(documents.cluster_source, inputs.cluster, given(r.world));
  const bool is_default_batch = has_default_batch(r, documents);
  if (is_default_batch) fit_default_batch(documents, inputs, cluster.world_size());
  check_degrees(r, cluster.world_size());
  check_layout(space.layout, inputs.workload);
  check_dispatcher(space, cluster, "--dispatcher");
  check_codec(space, inputs.workload, "--codec");
  return {std::move(documents), std::move(inputs), std::move(cluster), std::move(space), is_default_batch};
}

PlanAnswer answer(const PlanJob& job, std::int64_t top,
                  const std::function<void(std::int64_t, std::int64_t)>& progress) {
  const KeptThreads threads(job.space.thread_count());
  const Problem problem(job.inputs.model, job.inputs.workload, job.cluster);
  problem.kept_timelines().keep(static_cast<std::size_t>(top));
  PlanAnswer out{.result = search(problem, job.space, progress), .predictions = {}, .beyond = {}};
  // A search that ran out of time shows what it simulated.
  const auto known = out.result.is_cut ? static_cast<std::size_t>(out.result.simulated) : out.result.ranked.size();
  const auto shown = std::min({static_cast<std::size_t>(top), known, out.result.ranked.size()});
  bring_ideas_forward(out.result.ranked, shown);
  out.predictions.resize(shown);
  const int all = job.space.thread_count(), of_each = threads_of_each(shown, all);
  in_parallel(shown, all,
              [&](std::size_t i) { out.predictions[i] = predict(problem, out.result.ranked[i].candidate, of_each); });
  problem.kept_timelines().keep(0);  // nothing that is searched from here on is predicted
  sort_by_prediction(out);
  if (job.space.framework && shown > 0 && !out.result.is_cut)
    out.beyond = beyond_framework(problem, job.space, out.result.ranked.front());
  return out;
}

std::vector<MemoryUse> best_stage_memory(const PlanJob& job, const PlanAnswer& answer) {
  return iteration_memory_by_stage(Problem(job.inputs.model, job.inputs.workload, job.cluster),
                                   answer.result.ranked.front().candidate, answer.predictions.front().program);
}

Plan best_plan(const PlanJob& job, const PlanAnswer& answer) {
  const Candidate& decided = answer.result.ranked.front().candidate;
  const Prediction& best = answer.predictions.front();
  return {.inputs = job.documents,
          .world_size = job.cluster.world_size(),
          .candidate = decided,
          .makespan = best.makespan,
          .estimate = best.estimate,
          .global_bound = answer.result.global_bound,
          .tutel = tutel_dictionaries(job.inputs.model, job.inputs.workload, job.cluster, decided)};
}

}  // namespace moeplan::planner
