// moeplan simulate PLAN [--inputs embedded|disk] [--trace t.json] [--json]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/pages/plans/plan_report.hpp"
#include "cli/pages/plans/prepared_plan.hpp"
#include "model/analysis/trace.hpp"
#include "sim/program/link_tracks.hpp"

namespace moeplan::cli {

namespace {

struct SimulateOptions {
  std::string plan, inputs = "embedded", trace;
  std::vector<std::string> overrides;
  bool json = false;
};

/// Reloads the inputs from their original files, and reports on standard error what changed.
void reload(planner::Plan& plan) {
  const planner::PlanInputs now = planner::load_inputs(plan.inputs.cluster_source, plan.inputs.model_source,
                                                       plan.inputs.workload_source, plan.inputs.overrides);
  constexpr std::size_t kMostNamed = 10;
  std::vector<std::string> changed;
  planner::add_differences(plan.inputs.cluster, now.cluster, "cluster", kMostNamed, changed);
  planner::add_differences(plan.inputs.model, now.model, "model", kMostNamed, changed);
  planner::add_differences(plan.inputs.workload, now.workload, "workload", kMostNamed, changed);
  for (const std::string& key : changed) fmt::print(stderr, "changed since the plan was made: {}\n", key);
  plan.inputs = now;
}

void run_simulate(const SimulateOptions& o) {
  const auto start = std::chrono::steady_clock::now();
  check_outputs({o.trace});
  planner::Plan plan = planner::read_plan(o.plan);
  if (o.inputs == "disk") reload(plan);
  const PreparedPlan prepared = prepare_plan(std::move(plan), o.plan, o.overrides);
  const planner::Prediction p = predict(prepared);
  if (!o.trace.empty()) {
    write_chrome_trace(o.trace, p.program, p.timeline,
                       {.node_of_rank = prepared.cluster.node_of_rank,
                        .ranks = {},
                        .links = sim::busiest_link_tracks(p.program, prepared.cluster, p.timeline)});
  }
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto& [whole, inputs, cluster] = prepared;
  fmt::print("{}", o.json ? simulate_json(whole, inputs, cluster, p, wall) : simulate_page(whole, inputs, cluster, p));
}

}  // namespace

void add_simulate_command(CLI::App& app, ExitCode&) {
  auto* c = app.add_subcommand("simulate", "Simulate a plan file again");
  auto o = std::make_shared<SimulateOptions>();
  c->add_option("plan", o->plan, "The plan file")->required();
  c->add_option("--inputs", o->inputs,
                "embedded: the plan alone; disk: read the original files again and say what changed")
      ->check(CLI::IsMember({"embedded", "disk"}))
      ->capture_default_str();
  c->add_option("--trace", o->trace, "Write a Chrome trace here");
  c->add_option("-C", o->overrides, "Override a value: cluster.a.b=c, model.a=b, workload.a=b")->take_all();
  c->add_flag("--json", o->json, "Print JSON");
  c->callback([o] { run_simulate(*o); });
}

}  // namespace moeplan::cli
