// moeplan replay TRACE --cluster C --model M [--strategies A,B] [--redundant N] [--interval Q] [-C ...] [--json]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/progress.hpp"
#include "cli/options/option_values.hpp"
#include "cli/pages/replay_report.hpp"
#include "model/base/diagnostics.hpp"
#include "planner/plan/inputs.hpp"

namespace moeplan::cli {

namespace {

struct ReplayCommand {
  std::string trace, cluster, model, workload = "default", plan_time;
  std::vector<std::string> strategies, overrides;
  std::int64_t redundant = 1, interval = 1;
  std::optional<double> drift;
  bool foresight = false, json = false, quiet = false;
};

/// The named strategies; without any, all but `contiguous`, with which every one is compared.
std::vector<std::string> strategies_of(const ReplayCommand& o) {
  const std::vector<std::string> names = planner::placement_names();
  if (o.strategies.empty()) {
    std::vector<std::string> all;
    for (const std::string& name : names) {
      if (name != planner::kContiguous) all.push_back(name);
    }
    return all;
  }
  Diagnostics wrong;
  for (const std::string& name : o.strategies) {
    if (!planner::find_placement_strategy(name))
      wrong.add({"--strategies"}, "", fmt::format("{} is no strategy{}", in_quotes(name), suggestion(name, names)));
  }
  wrong.throw_if_any();
  return o.strategies;
}

planner::ReplayOptions options_of(const ReplayCommand& o) {
  return {.devices = {},
          .options = {},
          .interval = o.interval,
          .drift_trigger = o.drift,
          .foresight = o.foresight,
          .plan_time = o.plan_time.empty() ? Seconds(0) : duration_option("--plan-time", o.plan_time)};
}

void run_replay(const ReplayCommand& o) {
  planner::ReplayOptions options = options_of(o);
  const std::vector<std::string> strategies = strategies_of(o);
  const planner::PlanInputs documents = planner::load_inputs(o.cluster, o.model, o.workload, o.overrides);
  const planner::Inputs inputs = planner::read_inputs(documents);
  const RoutingTrace trace = read_routing_trace(o.trace);
  const Cluster cluster = planner::build_cluster_of(documents.cluster_source, inputs.cluster, trace.sources());
  options.devices = planner::trace_devices(inputs.model, inputs.workload, cluster, trace, o.redundant, o.trace);
  ReplayReport report{.trace_file = o.trace,
                      .trace = trace,
                      .inputs = inputs,
                      .cluster = cluster,
                      .options = options,
                      .redundant_experts = o.redundant,
                      .replays = {}};
  {
    Progress progress("replaying", o.quiet);
    report.replays = planner::replays(trace, strategies, options,
                                      [&](std::int64_t done, std::int64_t total) { progress.show(done, total); });
  }
  fmt::print("{}", o.json ? replay_json(report) : replay_page(report));
}

}  // namespace

void add_replay_command(CLI::App& app, ExitCode&) {
  auto* c = app.add_subcommand("replay", "Compare placement strategies on a recorded routing (docs/placement.md)");
  auto o = std::make_shared<ReplayCommand>();
  c->add_option("TRACE", o->trace, "A routing trace, CSV or CSV in gzip; one source per rank")->required();
  c->add_option("--cluster", o->cluster, "A cluster of configs/clusters, or a file")->required();
  c->add_option("--model", o->model, "A model of configs/models with the trace's experts, or a file")->required();
  c->add_option("--workload", o->workload, "Mode and formats; the trace has the tokens");
  c->add_option("--strategies", o->strategies,
                "Strategies to replay, such as auto,pro_prophet:alpha=3:n=0.25; all by default")
      ->delimiter(',');
  c->add_option("--redundant", o->redundant, "Slots per rank beyond an equal division of the experts")
      ->check(CLI::Range(std::int64_t{0}, planner::kMostRedundantExperts));
  constexpr std::int64_t kMostIterations = std::int64_t{1} << 31;
  auto* interval = c->add_option("--interval", o->interval, "q: iterations of the trace between plans")
                       ->check(CLI::Range(std::int64_t{1}, kMostIterations));
  c->add_option("--drift", o->drift, "Plan again when loads have drifted this far (total variation)")
      ->check(CLI::Range(0.0, 1.0))
      ->excludes(interval);
  c->add_flag("--foresight", o->foresight, "Plan from the loads of the same iteration: the upper limit");
  c->add_option("--plan-time", o->plan_time, "Time of planning one layer, such as 200 us; concurrent with an exchange");
  c->add_option("-C", o->overrides, "Override a value: cluster.a.b=c, model.a=b, workload.a=b")->take_all();
  c->add_flag("--json", o->json, "Print JSON");
  c->add_flag("--quiet", o->quiet, "No progress on standard error");
  c->callback([o] { run_replay(*o); });
}

}  // namespace moeplan::cli
