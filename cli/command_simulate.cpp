// moeplan simulate PLAN [--inputs embedded|disk] [--trace t.json] [--json]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/commands.hpp"
#include "cli/plan_report.hpp"
#include "model/program/trace.hpp"
#include "planner/lower.hpp"

namespace moeplan {

namespace {

struct Options {
  std::string plan, inputs = "embedded", trace;
  std::vector<std::string> overrides;
  bool json = false;
};

/// Key paths at which two documents differ, at most ten.
void differences(const Node& a, const Node& b, const std::string& path, std::vector<std::string>& out) {
  if (a.same_content(b) || out.size() >= 10) return;
  if (a.kind != Node::Kind::Map || b.kind != Node::Kind::Map) {
    out.push_back(path);
    return;
  }
  for (const Entry& e : a.entries) {
    const Node* other = b.find(e.key);
    const std::string key = path + "." + e.key;
    if (other) {
      differences(e.value, *other, key, out);
    } else {
      out.push_back(key + " (gone)");
    }
  }
  for (const Entry& e : b.entries) {
    if (!a.find(e.key)) out.push_back(path + "." + e.key + " (new)");
  }
}

/// Reads the originals again, and says on stderr what they changed.
void reload(Plan& plan) {
  const PlanInputs now = load_inputs(plan.inputs.cluster_source, plan.inputs.model_source, plan.inputs.workload_source,
                                     plan.inputs.overrides);
  std::vector<std::string> changed;
  differences(plan.inputs.cluster, now.cluster, "cluster", changed);
  differences(plan.inputs.model, now.model, "model", changed);
  differences(plan.inputs.workload, now.workload, "workload", changed);
  for (const std::string& key : changed) fmt::print(stderr, "changed since the plan was made: {}\n", key);
  plan.inputs = now;
}

void run(const Options& o) {
  const auto start = std::chrono::steady_clock::now();
  Plan plan = read_plan(o.plan);
  if (o.inputs == "disk") reload(plan);
  apply_overrides(plan.inputs, o.overrides);
  const Inputs inputs = read_inputs(plan.inputs);
  const Cluster cluster = build_cluster_of(o.plan, inputs.cluster, plan.world_size);
  if (const auto reason = obstacle(inputs.model, inputs.workload, plan.candidate)) {
    throw InputError({{o.plan}, "decision", fmt::format("cannot be lowered: {}", *reason)});
  }
  const Prediction p = predict(inputs.model, inputs.workload, cluster, plan.candidate);
  if (!o.trace.empty())
    write_chrome_trace(o.trace, p.program, p.timeline, {.node_of_rank = cluster.node_of_rank, .ranks = {}});
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{}", o.json ? simulate_json(plan, inputs, cluster, p, wall) : simulate_page(plan, inputs, cluster, p));
}

}  // namespace

void add_simulate_command(CLI::App& app, ExitCode&) {
  auto* c = app.add_subcommand("simulate", "Simulate a plan file again");
  auto o = std::make_shared<Options>();
  c->add_option("plan", o->plan, "The plan file")->required();
  c->add_option("--inputs", o->inputs,
                "embedded: the plan alone; disk: read the original files again and say what changed")
      ->check(CLI::IsMember({"embedded", "disk"}))
      ->capture_default_str();
  c->add_option("--trace", o->trace, "Write a Chrome trace here");
  c->add_option("-C", o->overrides, "Override a value: cluster.a.b=c, model.a=b, workload.a=b")->take_all();
  c->add_flag("--json", o->json, "Print JSON");
  c->callback([o] { run(*o); });
}

}  // namespace moeplan
