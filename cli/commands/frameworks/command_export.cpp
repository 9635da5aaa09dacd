// moeplan export PLAN --to FRAMEWORK[@VERSION] [-o F]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/pages/plans/prepared_plan.hpp"
#include "planner/launch/export_plan.hpp"
#include "planner/launch/launch_script.hpp"

namespace moeplan::cli {

namespace {

struct ExportOptions {
  std::string plan, to, output;
  std::vector<std::string> overrides;
};

void print_list(const char* title, const std::vector<std::string>& lines) {
  if (!lines.empty()) fmt::print("{}:\n", title);
  for (const std::string& line : lines) fmt::print("  {}\n", line);
}

void run_export(const ExportOptions& o) {
  check_outputs({o.output});
  const planner::Framework framework = planner::load_framework(o.to);
  const PreparedPlan prepared = load_plan(o.plan, o.overrides);
  const planner::Launch launch = planner::launch_of({prepared.plan, prepared.inputs, prepared.cluster, framework});
  const std::string script = planner::launch_script(launch, framework);
  if (o.output.empty()) {
    fmt::print("{}", script);
    return;
  }
  write_file_atomically(o.output, script);
  fmt::print("{}\nfor {}\n", launch.about, launch.title);
  print_list("not translated", launch.untranslated);
  if (launch.untranslated.empty()) fmt::print("every decision of the plan is translated\n");
  print_list("to fill in", launch.to_fill_in);
  fmt::print("written to {}; start it with: sbatch {}\n", o.output, o.output);
}

}  // namespace

void add_export_command(CLI::App& app, ExitCode&) {
  auto* c =
      app.add_subcommand("export", "Write a plan as a job of a framework: flags or configuration, and a Slurm script");
  auto o = std::make_shared<ExportOptions>();
  c->add_option("plan", o->plan, "A plan file")->required();
  c->add_option("--to", o->to, "The framework, NAME or NAME@VERSION (moeplan list frameworks)")->required();
  c->add_option("-o,--output", o->output, "Where to write the script (default: standard output)");
  c->add_option("-C", o->overrides, "Override a value: cluster.a.b=c, model.a=b, workload.a=b")->take_all();
  c->callback([o] { run_export(*o); });
}

}  // namespace moeplan::cli
