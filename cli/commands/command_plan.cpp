// moeplan plan --cluster C --model M [--workload W] [--world N] [-o plan.yaml] ...
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/commands/progress.hpp"
#include "cli/pages/plans/plan_report.hpp"
#include "model/analysis/trace.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/placement/strategies/strategy.hpp"
#include "planner/search/search.hpp"
#include "sim/program/link_tracks.hpp"

namespace moeplan::cli {

namespace {

struct PlanOptions {
  std::string cluster, model, workload = "default", framework, precision, output, trace, schedule, all_to_all, codec,
                              placement = "auto";
  std::vector<std::string> overrides;
  std::int64_t world = 0, tp = 0, cp = 0, ep = 0, esp = 0, dp = 0, pp = 0, vp = 0, micro_batch = 0, pipeline_degree = 0,
               top = 5, threads = 0;
  std::optional<std::int64_t> sp{}, zero{};
  bool ep_overlap = false;
  std::string layout, recompute;
  std::optional<std::int64_t> redundant_experts{};
  std::int64_t budget = planner::SearchSpace{}.most_simulated;
  std::uint64_t seed = 0;
  bool has_seed = false, json = false, quiet = false, approximates = false;
};

std::optional<std::int64_t> given(std::int64_t value) { return value > 0 ? std::optional(value) : std::nullopt; }

planner::SearchSpace search_space(const PlanOptions& o) {
  Diagnostics wrong;
  std::vector<std::string> names;
  for (const auto& s : planner::schedules()) names.emplace_back(s->name());
  if (!o.schedule.empty() && !planner::find_schedule(o.schedule)) {
    wrong.add({"--schedule"}, "",
              fmt::format("{} is not known{}", in_quotes(o.schedule), suggestion(o.schedule, names)));
  }
  if (!o.all_to_all.empty() && !planner::find_all_to_all(o.all_to_all)) {
    wrong.add({"--all-to-all"}, "",
              fmt::format("{} is not known{}", in_quotes(o.all_to_all),
                          suggestion(o.all_to_all, planner::all_to_all_names())));
  }
  if (!o.codec.empty() && !parse_codec_pair(o.codec)) wrong.add({"--codec"}, "", codec_pair_error(o.codec));
  if (!planner::find_placement_strategy(o.placement)) {
    wrong.add(
        {"--placement"}, "",
        fmt::format("{} is not known{}", in_quotes(o.placement), suggestion(o.placement, planner::placement_names())));
  }
  planner::SearchSpace space;
  if (!o.layout.empty()) {
    const auto layout = planner::parse_layout(o.layout);
    if (const auto* error = std::get_if<std::string>(&layout)) wrong.add({"--layout"}, "", *error);
    if (const auto* parts = std::get_if<planner::PipelineLayout>(&layout)) space.layout = *parts;
  }
  if (!o.recompute.empty() && o.recompute != "auto" && !parse_recompute(o.recompute))
    wrong.add({"--recompute"}, "", recompute_error(o.recompute));
  wrong.throw_if_any();
  if (!o.schedule.empty()) space.schedule = o.schedule;
  if (!o.all_to_all.empty()) space.all_to_all = o.all_to_all;
  space.codec = parse_codec_pair(o.codec);
  space.pipeline_degree = given(o.pipeline_degree);
  space.tp = given(o.tp);
  space.cp = given(o.cp);
  space.pp = given(o.pp);
  space.ep = given(o.ep);
  space.esp = given(o.esp);
  space.dp = given(o.dp);
  space.virtual_stages = given(o.vp);
  if (o.sp) space.sequence_parallel = *o.sp == 1;
  space.ep_overlap = o.ep_overlap;
  if (!o.framework.empty()) space.framework = planner::load_framework(o.framework);
  space.threads = static_cast<int>(o.threads);
  space.most_simulated = o.budget;
  space.placements = {
      .placement = o.placement == "auto" ? std::nullopt : std::optional(planner::PlacementChoice(o.placement)),
      .redundant_experts = o.redundant_experts};
  return space;
}

/// Degrees that the user fixed and that no division of the GPUs can have.
void check_degrees(const PlanOptions& o, std::int64_t world) {
  Diagnostics wrong;
  const auto check = [&](const char* name, std::int64_t product, const std::string& what) {
    if (product > 0 && world % product != 0) {
      wrong.add({name}, "", fmt::format("{} does not divide the {} GPUs", what, world));
    }
  };
  check("--tp", o.tp, fmt::format("{}", o.tp));
  check("--cp", o.cp, fmt::format("{}", o.cp));
  check("--pp", o.pp, fmt::format("{}", o.pp));
  check("--dp", o.dp, fmt::format("{}", o.dp));
  check("--ep", o.ep, fmt::format("{}", o.ep));
  check("--esp", o.esp, fmt::format("{}", o.esp));
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
  const bool all_given = o.tp > 0 && o.cp > 0 && o.dp > 0 && o.pp > 0;
  const std::int64_t dense = together("--pp, --dp, --cp, --tp", {o.pp, o.dp, o.cp, o.tp});
  if (wrong.empty() && all_given && dense != world) {
    wrong.add({"--pp, --dp, --cp, --tp"}, "",
              fmt::format("{} x {} x {} x {} is not the {} GPUs", o.pp, o.dp, o.cp, o.tp, world));
  }
  (void)together("--pp, --ep, --esp", {o.pp, o.ep, o.esp});
  wrong.throw_if_any();
}

/// Decisions that the user fixed and that the framework does not have.
void check_decisions(const PlanOptions& o, const planner::Framework& framework) {
  using planner::FrameworkDecision;
  Diagnostics wrong;
  const auto check = [&](const char* option, FrameworkDecision decision, const std::string& value) {
    if (value.empty() || framework.has(decision, value)) return;
    std::vector<std::string> names;
    if (const auto of = framework.values.find(decision); of != framework.values.end()) {
      for (const auto& [name, theirs] : of->second) names.push_back(name);
    }
    wrong.add({option}, "",
              fmt::format("{} is not in {}; it has {}", in_quotes(value), framework.text(), fmt::join(names, ", ")));
  };
  check("--schedule", FrameworkDecision::Schedules, o.schedule);
  check("--all-to-all", FrameworkDecision::AllToAlls, o.all_to_all);
  check("--placement", FrameworkDecision::Placements, o.placement == "auto" ? "" : o.placement);
  if (o.ep_overlap) check("--ep-overlap", FrameworkDecision::Overlaps, "ep_overlap");
  wrong.throw_if_any();
}

/// The fastest candidate of any schedule, all-to-all, codec and order on the degrees of the framework's best one, if it
/// is faster: what one would have to implement.
std::optional<planner::Evaluated> beyond_framework(const planner::Problem& problem, planner::SearchSpace space,
                                                   const planner::Evaluated& best) {
  const planner::Candidate& c = best.candidate;
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
  space.sequence_parallel = c.sequence_parallel;
  space.placements = std::nullopt;
  planner::SearchResult all = planner::search(problem, space);
  if (all.ranked.empty() || !all.ranked.front().makespan || *all.ranked.front().makespan >= *best.makespan)
    return std::nullopt;
  return std::move(all.ranked.front());
}

/// The overrides of -C, and those that other options stand in for.
std::vector<std::string> overrides_of(const PlanOptions& o, const std::optional<planner::Framework>& framework) {
  std::vector<std::string> overrides;
  if (framework) overrides = framework->overrides;
  overrides.insert(overrides.end(), o.overrides.begin(), o.overrides.end());
  if (!o.precision.empty()) {
    if (named<Dtype>(kDtypeNames, o.precision)) overrides.push_back("workload.dtype=" + o.precision);
    overrides.push_back("workload.precision=" + o.precision);
  }
  for (const auto& [key, value] : {std::pair{"micro_batch", given(o.micro_batch)}, std::pair{"zero_stage", o.zero}}) {
    if (value) overrides.push_back(fmt::format("workload.{}={}", key, *value));
  }
  if (!o.recompute.empty()) overrides.push_back("workload.recompute=" + o.recompute);
  if (o.has_seed) overrides.push_back(fmt::format("workload.routing.seed={}", o.seed));
  return overrides;
}

/// Why nothing is feasible, and what would be.
void print_infeasible(const PlanOptions& o, const planner::Inputs& inputs, const planner::SearchSpace& space,
                      const Cluster& cluster, const planner::SearchResult& result) {
  std::optional<planner::WouldFit> would_fit;
  if (cluster.ranks_per_gpu == 1) would_fit = planner::what_would_fit(inputs, space, cluster.world_size());
  if (o.json) fmt::print("{}", infeasible_json(inputs, cluster, result, would_fit));
  fmt::print(stderr, "{}", infeasible_page(inputs, cluster, result, would_fit));
}

void run_plan(const PlanOptions& o, ExitCode& code) {
  const auto start = std::chrono::steady_clock::now();
  const planner::SearchSpace space = search_space(o);
  check_outputs({o.output, o.trace});
  if (space.framework) check_decisions(o, *space.framework);
  planner::PlanInputs documents =
      planner::load_inputs(o.cluster, o.model, o.workload, overrides_of(o, space.framework),
                           o.approximates ? planner::UnknownFamilies::Approximated : planner::UnknownFamilies::Refused);
  planner::Inputs inputs = planner::read_inputs(documents);
  if (space.framework) planner::settle_for_framework(*space.framework, documents, inputs);
  const Cluster cluster = planner::build_cluster_of(documents.cluster_source, inputs.cluster, given(o.world));
  check_degrees(o, cluster.world_size());

  const planner::Problem problem(inputs.model, inputs.workload, cluster);
  planner::SearchResult result;
  std::vector<planner::Prediction> predictions;
  std::optional<planner::Evaluated> beyond;
  {
    Progress progress("planning", o.quiet);
    result =
        planner::search(problem, space, [&](std::int64_t done, std::int64_t total) { progress.show(done, total); });
    const auto shown = std::min(static_cast<std::size_t>(o.top), result.ranked.size());
    planner::bring_ideas_forward(result.ranked, shown);
    for (std::size_t i = 0; i < shown; ++i) predictions.push_back(predict(problem, result.ranked[i].candidate));
    if (space.framework && shown > 0) beyond = beyond_framework(problem, space, result.ranked.front());
  }
  if (result.ranked.empty()) {
    print_infeasible(o, inputs, space, cluster, result);
    code = ExitCode::NothingFeasible;
    return;
  }
  const planner::Prediction& best = predictions.front();
  const planner::Candidate& decided = result.ranked.front().candidate;
  const std::vector<planner::TutelDictionary> tutel =
      planner::tutel_dictionaries(inputs.model, inputs.workload, cluster, decided);
  if (!o.output.empty()) {
    planner::write_plan({.inputs = documents,
                         .world_size = cluster.world_size(),
                         .candidate = decided,
                         .makespan = best.makespan,
                         .estimate = best.estimate,
                         .global_bound = result.global_bound,
                         .tutel = tutel},
                        o.output);
  }
  if (!o.trace.empty())
    write_chrome_trace(o.trace, best.program, best.timeline,
                       {.node_of_rank = cluster.node_of_rank,
                        .ranks = {},
                        .links = sim::busiest_link_tracks(best.program, cluster, best.timeline)});
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const planner::Framework* framework = space.framework ? &*space.framework : nullptr;
  const PlanReport report{inputs, documents, cluster, result, predictions, tutel, framework, beyond, wall};
  if (o.json) return fmt::print("{}", plan_json(report));
  fmt::print("{}", plan_page(report));
  if (!o.output.empty()) fmt::print("\n  plan   {}\n", o.output);
  if (!o.trace.empty()) fmt::print("  trace  {}  (open it in ui.perfetto.dev)\n", o.trace);
}

}  // namespace

void add_plan_command(CLI::App& app, ExitCode& code) {
  auto* c = app.add_subcommand("plan", "Find the fastest plan for a model on a cluster");
  auto o = std::make_shared<PlanOptions>();
  c->add_option("--cluster", o->cluster, "Name in configs/clusters, or a file")->required();
  c->add_option("--model", o->model, "Name in configs/models or its id on Hugging Face, a file, or a config.json")
      ->required();
  c->add_flag("--approximate-unknown", o->approximates,
              "Read a config.json of an unknown family as the nearest known one, and say what is assumed");
  c->add_option("--workload", o->workload, "Name in configs/workloads, or a file")->capture_default_str();
  const CLI::Range count(std::int64_t{1}, std::int64_t{1'048'576});
  c->add_option("--world", o->world, "GPUs to use: the first N; a template grows in whole nodes")->check(count);
  c->add_option("--framework", o->framework,
                "Only what this framework runs, NAME or NAME@VERSION (moeplan list frameworks)");
  c->add_option("--precision", o->precision, "Format or recipe of the products (moeplan list precisions)");
  c->add_option("-o,--output", o->output, "Write the plan file here");
  c->add_option("--trace", o->trace, "Write a Chrome trace of the best plan here");
  c->add_option("--schedule", o->schedule, "Only this schedule of the MoE layers (moeplan list schedules)");
  c->add_option("--all-to-all", o->all_to_all, "Only this all-to-all (moeplan list all-to-all)");
  c->add_option("--pipeline-degree", o->pipeline_degree, "Only so many chunks of a microbatch in an MoE layer")
      ->check(CLI::Range(std::int64_t{1}, planner::kMostChunks));
  c->add_option("--codec", o->codec,
                "Only this codec (moeplan list codecs), or one of dispatch and one of combine: int8/none");
  c->add_option("--placement", o->placement, "Only this expert placement (moeplan list placements), or auto")
      ->capture_default_str();
  c->add_option("--redundant-experts", o->redundant_experts,
                "Only so many slots a rank beyond its share of the experts")
      ->check(CLI::Range(std::int64_t{0}, planner::kMostRedundantExperts));
  c->add_option("--tp", o->tp, "Only this tensor-parallel size")->check(count);
  c->add_option("--cp", o->cp, "Only this context-parallel size")->check(count);
  c->add_option("--ep", o->ep, "Only this expert-parallel size")->check(count);
  c->add_option("--esp,--etp", o->esp, "Only this number of shards an expert")->check(count);
  c->add_option("--dp", o->dp, "Only this data-parallel size")->check(count);
  c->add_option("--pp", o->pp, "Only this number of pipeline stages")->check(count);
  c->add_option("--vp", o->vp, "Only this number of parts of the model a pipeline stage")->check(count);
  c->add_flag("--ep-overlap", o->ep_overlap,
              "Exchange the tokens of one microbatch during the computation of its neighbour");
  c->add_option("--sp", o->sp, "Only with (1) or without (0) sequence parallelism")->check(CLI::Range(0, 1));
  c->add_option("--layout", o->layout, "What the parts of the pipeline hold, as Megatron-LM's layouts: Ett|tt|tmL");
  c->add_option("--micro-batch", o->micro_batch, "Sequences a microbatch and replica; workload.micro_batch")
      ->check(count);
  c->add_option("--zero", o->zero, "Sharding of states, gradients, weights over replicas; workload.zero_stage")
      ->check(CLI::Range(0, 3));
  c->add_option("--recompute", o->recompute,
                "none, selective, full, auto, or modules as moe_act+layernorm; workload.recompute");
  c->add_option("--top", o->top, "How many candidates to show")->check(CLI::Range(1, 100))->capture_default_str();
  c->add_option("--budget", o->budget, "How many candidates may be simulated; the best by closed form are")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  c->add_option("--threads", o->threads, "Threads; 0: one a core; the result is the same")->check(CLI::Range(0, 1024));
  auto* seed = c->add_option("--seed", o->seed, "Seed of the routing scenario");
  c->add_option("-C", o->overrides, "Override a value: cluster.a.b=c, model.a=b, workload.a=b")->take_all();
  c->add_flag("--json", o->json, "Print JSON");
  c->add_flag("--quiet", o->quiet, "No progress bar");
  c->callback([o, seed, &code] {
    o->has_seed = seed->count() > 0;
    run_plan(*o, code);
  });
}

}  // namespace moeplan::cli
