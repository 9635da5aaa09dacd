// moeplan explain PLAN [-C ...] [--operations] [--json]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/progress.hpp"
#include "cli/pages/plans/explanation.hpp"
#include "cli/pages/plans/operation_table.hpp"
#include "cli/pages/text/colour.hpp"

namespace moeplan::cli {

namespace {

struct ExplainOptions {
  std::string plan;
  std::vector<std::string> overrides;
  bool operations = false, json = false, quiet = false;
};

void run_explain(const ExplainOptions& o) {
  const auto start = std::chrono::steady_clock::now();
  const PreparedPlan plan = load_plan(o.plan, o.overrides);
  std::string text;
  {
    Progress progress("simulating", o.quiet);
    const Explanation e = explain(plan, [&](std::int64_t done, std::int64_t total) { progress.show(done, total); });
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    text = o.json ? explain_json(e, wall) : explain_page(e);
    if (o.operations && !o.json) {
      const RankId rank = e.prediction.binding.rank;
      text += '\n' + operation_table(e.prediction.program, e.operations, rank);
    }
  }
  if (o.json) return fmt::print("{}", text);
  print_page(stdout, text);
}

}  // namespace

Explanation explain(const PreparedPlan& plan, const std::function<void(std::int64_t, std::int64_t)>& progress) {
  Explanation e{.plan = plan,
                .prediction = predict(plan),
                .path = {},
                .roofline = {},
                .layer_points = {},
                .forms = {},
                .sensitivities = {},
                .placement = {},
                .operations = {},
                .buffers = {}};
  const planner::Prediction& p = e.prediction;
  e.path = summarise(p.program, plan.cluster, critical_path(p.program, p.timeline, plan.cluster));
  e.roofline = ddl_roofline(p.program, p.makespan, p.binding);
  const planner::Problem problem = plan.problem();
  e.layer_points = planner::layer_roofline(problem, plan.plan.candidate);
  e.forms = planner::paper_forms(problem, plan.plan.candidate, e.layer_points);
  e.sensitivities = planner::sensitivities(p.program, plan.cluster, p.makespan, progress);
  e.operations = operation_list(p.program, p.timeline, p.binding.rank);
  e.placement = planner::placement_payoff(problem, plan.plan.candidate, p);
  e.buffers = planner::iteration_buffers(problem, plan.plan.candidate, p.program, p.memory.stage);
  return e;
}

void add_explain_command(CLI::App& app, ExitCode&) {
  auto* c = app.add_subcommand("explain", "Why a plan takes as long as it does, and what would make it faster");
  auto o = std::make_shared<ExplainOptions>();
  c->add_option("plan", o->plan, "The plan file")->required();
  c->add_option("-C", o->overrides, "Override a value: cluster.a.b=c, model.a=b, workload.a=b")->take_all();
  c->add_flag("--operations", o->operations, "Also list every operation of the binding rank");
  c->add_flag("--json", o->json, "Print JSON");
  c->add_flag("--quiet", o->quiet, "No progress on standard error");
  c->callback([o] { run_explain(*o); });
}

}  // namespace moeplan::cli
