// moeplan plan --cluster C --model M [--workload W] [--world N] [-o plan.yaml] ...
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/commands/progress.hpp"
#include "cli/options/option_values.hpp"
#include "cli/pages/plans/plan_report.hpp"
#include "cli/pages/text/colour.hpp"
#include "model/analysis/trace.hpp"
#include "model/base/diagnostics.hpp"
#include "planner/request/plan_request.hpp"
#include "sim/program/link_tracks.hpp"

namespace moeplan::cli {

namespace {

struct PlanOptions {
  planner::PlanRequest request;
  std::string output, trace, time_limit;
  std::int64_t top = 5;
  bool json = false, is_verbose = false, quiet = false;
};

/// Why nothing is feasible, and what would be.
void print_infeasible(const PlanOptions& o, const planner::Inputs& inputs, const planner::SearchSpace& space,
                      const Cluster& cluster, const planner::SearchResult& result) {
  std::optional<planner::WouldFit> would_fit;
  if (cluster.ranks_per_gpu == 1) would_fit = planner::what_would_fit(inputs, space, cluster.world_size());
  if (o.json) fmt::print("{}", infeasible_json(inputs, cluster, result, would_fit));
  print_page(stderr, infeasible_page(inputs, cluster, result, would_fit));
}

/// The job, whose search ends `time_limit` after `start`.
planner::PlanJob load_limited_job(const PlanOptions& o, std::chrono::steady_clock::time_point start) {
  if (o.time_limit.empty()) return planner::load_job(o.request);
  const Seconds limit = duration_option("--time-limit", o.time_limit);
  planner::PlanJob job = planner::load_job(o.request);
  job.space.is_out_of_time = [=] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >= limit.value();
  };
  return job;
}

void run_plan(const PlanOptions& o, ExitCode& code) {
  const auto start = std::chrono::steady_clock::now();
  check_outputs({o.output, o.trace});
  const planner::PlanJob job = load_limited_job(o, start);
  const auto& [documents, inputs, cluster, space, has_default_batch] = job;
  planner::PlanAnswer answer;
  {
    Progress progress("planning", o.quiet);
    answer = planner::answer(job, o.top, [&](std::int64_t done, std::int64_t total) { progress.show(done, total); });
  }
  const auto& [result, predictions, beyond] = answer;
  if (result.ranked.empty()) {
    print_infeasible(o, inputs, space, cluster, result);
    code = ExitCode::NothingFeasible;
    return;
  }
  const planner::Prediction& best = predictions.front();
  const planner::Plan plan = planner::best_plan(job, answer);
  if (!o.output.empty()) planner::write_plan(plan, o.output);
  if (!o.trace.empty()) {
    StageClusters machines(cluster);
    write_chrome_trace(o.trace, best.program, best.timeline,
                       {.node_of_rank = cluster.node_of_rank,
                        .ranks = {},
                        .links = sim::busiest_link_tracks(best.program, machines, best.timeline)});
  }
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const planner::Framework* framework = space.framework ? &*space.framework : nullptr;
  const std::vector<MemoryUse> stage_memory = planner::best_stage_memory(job, answer);
  const PlanReport report{inputs, documents,    cluster,           result, predictions,         plan.tutel, framework,
                          beyond, stage_memory, has_default_batch, wall,   space.thread_count()};
  if (o.json) return fmt::print("{}", plan_json(report));
  print_page(stdout, plan_page(report, o.is_verbose));
  if (!o.output.empty()) fmt::print("\n  plan   {}\n", o.output);
  if (!o.trace.empty()) fmt::print("  trace  {}  (open it in ui.perfetto.dev)\n", o.trace);
}

CLI::Range positive() { return {std::int64_t{1}, std::int64_t{1'048'576}}; }

void add_degrees(CLI::App& c, planner::PlanRequest& r) {
  c.add_option("--tp", r.tp, "Only this tensor-parallel size")->check(positive());
  c.add_option("--cp", r.cp, "Only this context-parallel size")->check(positive());
  c.add_option("--ep", r.ep, "Only this expert-parallel size")->check(positive());
  c.add_option("--etp,--esp", r.esp, "Only this tensor-parallel size of the experts")->check(positive());
  c.add_option("--dp", r.dp, "Only this data-parallel size")->check(positive());
  c.add_option("--pp", r.pp, "Only this number of pipeline stages")->check(positive());
  c.add_option("--vp", r.vp, "Only this number of virtual stages (parts of the model) per pipeline stage")
      ->check(positive());
}

void add_pipeline(CLI::App& c, planner::PlanRequest& r) {
  c.add_option(
       "--pipeline", r.pipeline,
       "Only this shape of a pipeline: interleaved, or v: two parts of the model on each stage, as in DualPipeV, the "
       "first and the last part on the first stage")
      ->check(CLI::IsMember(std::vector<std::string>{"interleaved", "v"}));
  c.add_flag_function(
      "--ep-overlap,!--no-ep-overlap", [&r](std::int64_t count) { r.ep_overlap = count > 0; },
      "Only with, or only without, overlap of the all-to-alls of one microbatch with the computation of the "
      "neighbouring one");
  c.add_flag_function(
      "--delay-wgrad,!--no-delay-wgrad", [&r](std::int64_t count) { r.delay_wgrad = count > 0; },
      "Only with (and --ep-overlap), or only without, weight gradients computed beside the all-to-all that would "
      "otherwise wait for them");
}

}  // namespace

void add_plan_command(CLI::App& app, ExitCode& code) {
  auto* c = app.add_subcommand("plan", "Find the fastest plan for a model on a cluster");
  auto o = std::make_shared<PlanOptions>();
  planner::PlanRequest& r = o->request;
  c->add_option("--cluster", r.cluster, "Name in configs/clusters, or a file")->required();
  c->add_option("--model", r.model, "Name in configs/models or its id on Hugging Face, a file, or a config.json")
      ->required();
  c->add_flag("--approximate-unknown", r.approximates,
              "Read a config.json of an unknown family as the nearest known one, and name the assumptions");
  c->add_option("--workload", r.workload, "Name in configs/workloads, or a file")->capture_default_str();
  c->add_option("--world", r.world, "Number of GPUs: the first N; a cluster template grows in whole nodes")
      ->check(positive());
  c->add_option("--framework", r.framework,
                "Plan only what this framework can run, NAME or NAME@VERSION (moeplan list frameworks)");
  c->add_option("--precision", r.precision, "Number format or recipe of the matrix products (moeplan list precisions)");
  c->add_option("-o,--output", o->output, "Write the plan file here");
  c->add_option("--trace", o->trace, "Write a Chrome trace of the best plan here");
  c->add_option("--schedule", r.schedule, "Only this schedule of the MoE layers (moeplan list schedules)");
  c->add_option("--all-to-all,--dispatcher", r.all_to_all,
                "Only this all-to-all (moeplan list all-to-all) or dispatcher (moeplan list dispatchers)");
  c->add_option("--dispatcher-sms", r.dispatcher_sms,
                "SMs that the dispatcher's kernels hold (default: its own number)")
      ->check(CLI::Range(std::int64_t{1}, planner::kMostDispatcherSms));
  c->add_option("--pipeline-degree", r.pipeline_degree, "Only this number of chunks of a microbatch in an MoE layer")
      ->check(CLI::Range(std::int64_t{1}, planner::kMostChunks));
  c->add_option("--codec", r.codec,
                "Only this codec (moeplan list codecs), or one of dispatch and one of combine: int8/none");
  c->add_option("--placement", r.placement, "Only this expert placement (moeplan list placements), or auto")
      ->capture_default_str();
  c->add_option("--redundant-experts", r.redundant_experts, "Only this number of redundant experts per rank")
      ->check(CLI::Range(std::int64_t{0}, planner::kMostRedundantExperts));
  add_degrees(*c, r);
  add_pipeline(*c, r);
  c->add_option("--sp", r.sp, "Only with (1) or without (0) sequence parallelism")->check(CLI::Range(0, 1));
  c->add_option("--layout", r.layout, "Pipeline layout in Megatron-LM's notation: Ett|tt|tmL");
  c->add_option("--micro-batch", r.micro_batch, "Micro batch size, in sequences; sets workload.micro_batch")
      ->check(positive());
  c->add_option("--zero", r.zero, "ZeRO stage; sets workload.zero_stage")->check(CLI::Range(0, 3));
  c->add_option(
      "--recompute", r.recompute,
      "Recomputation: none, selective, full, auto, or modules such as moe_act+layernorm; sets workload.recompute");
  c->add_option("--top", o->top, "How many candidates to show")->check(CLI::Range(1, 100))->capture_default_str();
  c->add_option("--budget", r.budget, "Most candidates to simulate, those with the best closed-form estimate first")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  c->add_option(
      "--time-limit", o->time_limit,
      "End the search after this time (10s, 5m) with the best plan so far, which then depends on the computer");
  c->add_option("--threads", r.threads, "Threads; 0: one per core. The result does not depend on them")
      ->check(CLI::Range(0, 1024));
  c->add_option("--seed", r.seed, "Seed of the routing scenario")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1'000'000'000'000}));
  c->add_option("-C", r.overrides, "Override a value: cluster.a.b=c, model.a=b, workload.a=b")->take_all();
  c->add_flag("--json", o->json, "Print JSON");
  c->add_flag("-v,--verbose", o->is_verbose, "Also proofs, times by class, counts of the search, origins of numbers");
  c->add_flag("--quiet", o->quiet, "No progress on standard error");
  c->callback([o, &code] { run_plan(*o, code); });
}

}  // namespace moeplan::cli
