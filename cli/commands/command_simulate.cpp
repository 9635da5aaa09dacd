// moeplan simulate PLAN [--inputs embedded|disk] [--trace t.json [--trace-ranks 0,8-15] [--trace-window 1ms:2ms]
// [--trace-expand]] [--json]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>

#include "cli/commands/commands.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/pages/plans/plan_report.hpp"
#include "cli/pages/plans/prepared_plan.hpp"
#include "cli/pages/text/colour.hpp"
#include "model/analysis/trace.hpp"
#include "model/text/unit_text.hpp"
#include "sim/program/link_tracks.hpp"

namespace moeplan::cli {

namespace {

struct SimulateOptions {
  std::string plan, inputs = "embedded", trace, trace_window;
  std::vector<std::string> overrides, trace_ranks;
  bool json = false, expands = false;
};

/// The ranks of "0", "8-15" and so on, ascending; empty if there are none. Raises InputError.
std::vector<RankId> traced_ranks(const std::vector<std::string>& texts, std::int64_t world_size) {
  std::set<RankId> ranks;
  Diagnostics wrong;
  for (const std::string& text : texts) {
    const std::size_t dash = text.find('-');
    const Parsed<long long> first = parse_integer(text.substr(0, dash));
    const Parsed<long long> last = dash == std::string::npos ? first : parse_integer(text.substr(dash + 1));
    const auto *from = std::get_if<long long>(&first), *to = std::get_if<long long>(&last);
    if (!from || !to || *from < 0 || *to < *from || *to >= world_size) {
      wrong.add({"--trace-ranks"}, "",
                fmt::format("\"{}\" is neither a rank nor a range of them; write e.g. 0,8-15, up to {}", text,
                            world_size - 1));
      continue;
    }
    for (long long r = *from; r <= *to; ++r) ranks.insert(RankId(static_cast<std::int32_t>(r)));
  }
  wrong.throw_if_any();
  return {ranks.begin(), ranks.end()};
}

/// "100ms:200ms"; none if the text is empty. Raises InputError.
std::optional<std::pair<SimTime, SimTime>> traced_window(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const std::size_t colon = std::min(text.find(':'), text.size());
  const Parsed<Seconds> first = parse_seconds(text.substr(0, colon));
  const Parsed<Seconds> last = parse_seconds(colon < text.size() ? text.substr(colon + 1) : "");
  const auto *from = std::get_if<Seconds>(&first), *to = std::get_if<Seconds>(&last);
  if (!from || !to || *from < Seconds(0) || *to <= *from)
    throw InputError(
        Diagnostic{{"--trace-window"}, "", fmt::format("\"{}\" is no window; write e.g. 100ms:200ms", text)});
  return std::pair{SimTime::from_seconds(*from), SimTime::from_seconds(*to)};
}

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
  const auto window = traced_window(o.trace_window);
  planner::Plan plan = planner::read_plan(o.plan);
  if (o.inputs == "disk") reload(plan);
  const PreparedPlan prepared = prepare_plan(std::move(plan), o.plan, o.overrides);
  const std::vector<RankId> ranks = traced_ranks(o.trace_ranks, prepared.cluster.world_size());
  const planner::Prediction p = predict(prepared);
  if (!o.trace.empty()) {
    StageClusters machines(prepared.cluster);
    write_chrome_trace(o.trace, p.program, p.timeline,
                       {.node_of_rank = prepared.cluster.node_of_rank,
                        .ranks = ranks,
                        .links = sim::busiest_link_tracks(p.program, machines, p.timeline),
                        .expands_repeats = o.expands,
                        .window = window});
  }
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto& [whole, inputs, cluster] = prepared;
  if (o.json) return fmt::print("{}", simulate_json(whole, inputs, cluster, p, wall));
  print_page(stdout, simulate_page(whole, inputs, cluster, p));
}

}  // namespace

void add_simulate_command(CLI::App& app, ExitCode&) {
  auto* c = app.add_subcommand("simulate", "Simulate a plan file");
  auto o = std::make_shared<SimulateOptions>();
  c->add_option("plan", o->plan, "The plan file")->required();
  c->add_option("--inputs", o->inputs,
                "embedded: the plan alone; disk: read the original files again and say what changed")
      ->check(CLI::IsMember({"embedded", "disk"}))
      ->capture_default_str();
  auto* trace = c->add_option("--trace", o->trace, "Write a Chrome trace here, for ui.perfetto.dev");
  c->add_option("--trace-ranks", o->trace_ranks, "Ranks in the trace: 0,8-15; default: up to 64 that represent all")
      ->delimiter(',')
      ->needs(trace);
  c->add_option("--trace-window", o->trace_window, "Only this time of the iteration: 100ms:200ms")->needs(trace);
  c->add_flag("--trace-expand", o->expands, "Draw every layer and microbatch, including identical ones")->needs(trace);
  c->add_option("-C", o->overrides, "Override a value: cluster.a.b=c, model.a=b, workload.a=b")->take_all();
  c->add_flag("--json", o->json, "Print JSON");
  c->callback([o] { run_simulate(*o); });
}

}  // namespace moeplan::cli
