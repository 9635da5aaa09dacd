// moeplan compare PLAN PLAN [-C ...] [--json]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/pages/plans/comparison.hpp"
#include "cli/pages/text/colour.hpp"

namespace moeplan::cli {

namespace {

struct CompareOptions {
  std::string first, second;
  std::vector<std::string> overrides;
  bool json = false;
};

void run_compare(const CompareOptions& o) {
  const auto start = std::chrono::steady_clock::now();
  const PreparedPlan a = load_plan(o.first, o.overrides), b = load_plan(o.second, o.overrides);
  const planner::Prediction of_a = predict(a), of_b = predict(b);
  const Comparison c{{o.first, a, of_a}, {o.second, b, of_b}, planner::plan_difference(a.plan, of_a, b.plan, of_b)};
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (o.json) return fmt::print("{}", compare_json(c, wall));
  print_page(stdout, compare_page(c));
}

}  // namespace

void add_compare_command(CLI::App& app, ExitCode&) {
  auto* c = app.add_subcommand("compare", "What distinguishes two plans, and where the time goes");
  auto o = std::make_shared<CompareOptions>();
  c->add_option("first", o->first, "A plan file")->required();
  c->add_option("second", o->second, "Another plan file")->required();
  c->add_option("-C", o->overrides, "Override a value in both: cluster.a.b=c, model.a=b, workload.a=b")->take_all();
  c->add_flag("--json", o->json, "Print JSON");
  c->callback([o] { run_compare(*o); });
}

}  // namespace moeplan::cli
