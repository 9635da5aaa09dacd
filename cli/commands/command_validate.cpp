// moeplan validate PLAN | --suite S.yaml --backend host|nccl [--layer I] [--scale N] [--ranks-per-gpu N]
//                  [--iterations N] [--timeout 60s] [--budget 10s] [--resume] [--max-error 10%] [--trace t.json]
//                  [--json]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/commands/progress.hpp"
#include "cli/options/option_values.hpp"
#include "cli/pages/plans/prepared_plan.hpp"
#include "cli/pages/validate_report.hpp"
#include "cuda_runtime/validate/run_cases.hpp"
#include "cuda_runtime/validate/run_on_gpus.hpp"
#include "cuda_runtime/validate/suite.hpp"
#include "cuda_runtime/validate/suite_run.hpp"

namespace moeplan::cli {

namespace {

struct ValidateOptions {
  std::string plan, suite, backend, time_out = "60s", budget = "10s", max_error, trace;
  std::optional<std::int64_t> layer, iterations;
  std::int64_t scale = 1, ranks_per_gpu = 4;
  std::vector<std::string> overrides;
  bool resume = false, json = false, quiet = false;
};

[[noreturn]] void wrong(const std::string& option, const std::string& message) {
  throw InputError(Diagnostic{{option}, "", message});
}

/// A fraction given as "10%" or "0.1".
double share(const std::string& option, const std::string& text) {
  const bool percent = !text.empty() && text.back() == '%';
  const Parsed<double> parsed = parse_number(percent ? text.substr(0, text.size() - 1) : text);
  if (const auto* e = std::get_if<TextError>(&parsed)) wrong(option, e->message);
  const double value = std::get<double>(parsed) / (percent ? 100 : 1);
  if (!(value >= 0)) wrong(option, "expected a share that is not negative, as 10%");
  return value;
}

validate::RankSetup setup_of(const ValidateOptions& o) {
  validate::RankSetup out{.limits = {.time_out = duration_option("--timeout", o.time_out),
                                     .budget = duration_option("--budget", o.budget),
                                     .iterations = o.iterations},
                          .ranks_per_core = o.ranks_per_gpu,
                          .quiet = o.quiet};
  return out;
}

/// The cluster on which the layer is predicted: the first ranks of the configured one.
Cluster cluster_for(const std::string& file, const ClusterSpec& spec, const planner::LayerCase& layer) {
  return planner::build_cluster_of(file, spec, layer.ranks());
}

ValidatedCase validated(const planner::LayerCase& layer, validate::ExecutionResult result, const Cluster& cluster) {
  ValidatedCase out{layer, std::move(result), {}};
  if (out.was_executed()) out.validation = validate::compare(lower(layer), cluster, out.result);
  return out;
}

ExitCode code_of(const std::vector<ValidatedCase>& cases, const ValidateOptions& o) {
  for (const ValidatedCase& c : cases) {
    if (!c.result.failed.empty()) return ExitCode::FailedCheck;
    if (!c.was_executed()) continue;
    if (!c.result.is_right) return ExitCode::FailedCheck;
    if (o.max_error.empty()) continue;
    if (std::abs(c.validation.layer.error()) > share("--max-error", o.max_error)) return ExitCode::FailedCheck;
  }
  return ExitCode::Done;
}

/// The exit code if the ranks gave no answer; none if they did.
std::optional<ExitCode> ended_early(const validate::JobRun& run) {
  switch (run.end) {
    case validate::JobEnd::Done: return std::nullopt;
    case validate::JobEnd::NotMine: return ExitCode::Done;
    case validate::JobEnd::Failed: fmt::print(stderr, "{}\n", run.problem); return ExitCode::FailedCheck;
    case validate::JobEnd::Interrupted: fmt::print(stderr, "{}\n", run.problem); return ExitCode::Interrupted;
  }
  return std::nullopt;
}

/// Executes cases on the back end that was asked for.
validate::JobRun execute_on(const ValidateOptions& o, const std::vector<planner::LayerCase>& cases,
                            const validate::OnCase& on_case = {}) {
  const validate::ExecuteJob job{.limits = setup_of(o).limits, .cases = cases, .measure = {}};
  if (o.backend == "host") return validate::run_on_host(job, cases.front().ranks(), o.quiet, on_case);
  return validate::run_on_gpus(job, o.ranks_per_gpu, o.quiet, on_case);
}

Hardware hardware_of(const ValidateOptions& o, const validate::Answer& answer) {
  return {o.backend, answer.processor.name, answer.processor.count, answer.hosts,
          o.backend == "nccl" ? answer.clocks.text() : ""};
}

ExitCode run_plan(const ValidateOptions& o) {
  const PreparedPlan plan = load_plan(o.plan, o.overrides);
  const validate::RankSetup setup = setup_of(o);
  const planner::LayerCase whole = planner::layer_case(plan.inputs.model, plan.inputs.workload, plan.plan.candidate,
                                                       plan.cluster.ranks_per_node(), o.layer);
  const planner::LayerCase layer = planner::scaled(whole, o.scale);
  (void)planner::lower(layer);
  if (o.backend == "host") validate::check_ranks(layer, setup);
  if (o.backend == "host") validate::check_size(layer, setup);
  const Cluster cluster = cluster_for(o.plan, plan.inputs.cluster, layer);
  const validate::JobRun run = execute_on(o, {layer});
  if (const auto code = ended_early(run)) return *code;
  const ValidatedCase result = validated(layer, run.answer.cases.front(), cluster);
  if (!result.result.refused.empty()) wrong(o.plan, result.result.refused);
  const std::optional<double> max_error =
      o.max_error.empty() ? std::nullopt : std::optional(share("--max-error", o.max_error));
  const ValidateHead head{cluster.name, o.plan, o.scale, hardware_of(o, run.answer), run.command, max_error};
  if (!o.trace.empty()) write_file_atomically(o.trace, validate::overlaid_trace(lower(layer), result.validation));
  fmt::print("{}", o.json ? validate_json(head, result) : validate_page(head, result));
  return code_of({result}, o);
}

/// The layer whose variants a suite executes, on the first ranks of its cluster.
planner::LayerCase layer_of(const validate::Suite& suite, const planner::Inputs& inputs, const ValidateOptions& o) {
  const Cluster whole = planner::build_cluster_of(o.suite, inputs.cluster, suite.base.degrees.world());
  const planner::LayerCase layer =
      planner::scaled(layer_case(inputs.model, inputs.workload, suite.base, whole.ranks_per_node(), o.layer), o.scale);
  if (o.backend == "host") validate::check_ranks(layer, setup_of(o));
  if (o.backend == "host") validate::check_size(layer, setup_of(o));
  return layer;
}

ExitCode run_suite(const ValidateOptions& o) {
  const validate::Suite suite = validate::read_suite(planner::find_config("suites", o.suite));
  const planner::Inputs inputs = planner::read_inputs(suite.inputs);
  const planner::LayerCase layer = layer_of(suite, inputs, o);
  const Cluster cluster = cluster_for(o.suite, inputs.cluster, layer);
  const std::vector<planner::LayerCase> cases = validate::cases_of(suite, layer);
  const std::string results_file = suite.name + ".validate.jsonl";
  check_outputs({results_file});
  validate::SuiteStore store(results_file, o.resume);
  Progress progress("validate " + suite.name, o.quiet);
  std::map<std::size_t, ValidatedCase> results;  // by case
  std::vector<planner::LayerCase> missing;
  std::vector<std::size_t> places;  // of the missing ones
  ValidateHead head{cluster.name, suite.name, o.scale, {}, {}};
  const auto add = [&](std::size_t at, const validate::Answer& answer) {
    if (!answer.hosts.empty()) head.hardware = hardware_of(o, answer);
    results.emplace(at, validated(cases[at], answer.cases.front(), cluster));
    progress.show(std::ssize(results), std::ssize(cases));
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (const std::optional<validate::Answer> known = store.find(cases[i])) {
      add(i, *known);
    } else {
      missing.push_back(cases[i]);
      places.push_back(i);
    }
  }
  std::size_t next = 0;
  const validate::JobRun run = validate::run_all(
      missing, !validate::started_rank(),
      [&](const auto& some, const validate::OnCase& on_case) { return execute_on(o, some, on_case); },
      [&](const planner::LayerCase& c, const validate::Answer& answer) {
        if (answer.cases.front().failed.empty()) store.add(c, answer);
        add(places.at(next++), answer);
      });
  head.command = run.command;
  const std::optional<ExitCode> early = ended_early(run);
  if (early && run.end != validate::JobEnd::Failed) return *early;
  if (head.hardware.hosts.empty()) return early.value_or(ExitCode::Done);
  std::vector<ValidatedCase> in_order;
  for (auto& [at, result] : results) in_order.push_back(std::move(result));
  fmt::print("{}", o.json ? suite_json(head, in_order) : suite_page(head, in_order));
  return early.value_or(code_of(in_order, o));
}

ExitCode run_validate(const ValidateOptions& o) {
  if (o.plan.empty() == o.suite.empty()) wrong("validate", "needs a plan or a --suite");
  if (!o.max_error.empty()) (void)share("--max-error", o.max_error);
  if (!o.suite.empty() && !o.trace.empty()) wrong("--trace", "is of one plan, not of a suite");
  if (o.suite.empty() && o.resume) wrong("--resume", "is of a suite");
  check_outputs({o.trace});
  return o.suite.empty() ? run_plan(o) : run_suite(o);
}

}  // namespace

void add_validate_command(CLI::App& app, ExitCode& code) {
  auto* c = app.add_subcommand("validate", "Execute an MoE layer of a plan, and compare values and times");
  auto o = std::make_shared<ValidateOptions>();
  c->add_option("plan", o->plan, "The plan file");
  c->add_option("--suite", o->suite, "Many ways to run one layer: a name of configs/suites or a path");
  c->add_option("--backend", o->backend, "host: CPU ranks over MPI; nccl: GPUs")
      ->required()
      ->check(CLI::IsMember({"host", "nccl"}));
  c->add_option("--layer", o->layer, "Which layer, from 0; else the first with experts")->check(CLI::NonNegativeNumber);
  c->add_option("--scale", o->scale, "Shrink ranks, experts, tokens and sizes to one N-th")
      ->check(CLI::Range(1, 65536));
  c->add_option("--ranks-per-gpu", o->ranks_per_gpu, "Ranks that may share a core (host) or a GPU (nccl)")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  c->add_option("--iterations", o->iterations, "Timed runs; else until the median is known to 5% or the budget ends")
      ->check(CLI::Range(1, 1000));
  c->add_option("--timeout", o->time_out, "How long a rank waits for the others")->capture_default_str();
  c->add_option("--budget", o->budget, "Time for the timed runs of one case")->capture_default_str();
  c->add_flag("--resume", o->resume, "Keep the cases of a suite that NAME.validate.jsonl has already");
  c->add_option("--max-error", o->max_error, "Exit code 1 where the layer's time is predicted worse than this, as 10%");
  c->add_option("--trace", o->trace, "Write a Chrome trace here: measured and predicted ranks");
  c->add_option("-C", o->overrides, "Override a value: cluster.a.b=c, model.a=b, workload.a=b")->take_all();
  c->add_flag("--json", o->json, "Print JSON");
  c->add_flag("--quiet", o->quiet, "No command and no progress on standard error");
  c->callback([o, &code] { code = run_validate(*o); });
}

}  // namespace moeplan::cli
