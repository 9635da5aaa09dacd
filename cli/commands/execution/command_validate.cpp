// moeplan validate PLAN | --suite S.yaml --backend host|nccl [--layer I] [--step] [--scale N] [--ranks-per-gpu N]
//                  [--gpu-parts 50GB/s] [--iterations N] [--timeout 60s] [--budget 10s] [--resume] [--max-error 10%]
//                  [--trace t.json]
//                  [--json]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/execution/executed_suite.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/options/option_values.hpp"
#include "cli/pages/plans/prepared_plan.hpp"
#include "cli/pages/text/colour.hpp"
#include "cli/pages/validate_report.hpp"

namespace moeplan::cli {

namespace {

constexpr double kGiga = 1e9;

struct ValidateOptions {
  std::string plan, suite, backend, time_out = "60s", budget = "10s", max_error, trace, gpu_parts;
  std::optional<std::int64_t> layer, iterations;
  std::int64_t scale = 1, ranks_per_gpu = 4;
  double reference_gflop = runtime::kMostReferenceFlops / kGiga;
  std::vector<std::string> overrides;
  bool step = false, resume = false, json = false, quiet = false;
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
                                     .iterations = o.iterations,
                                     .most_reference_flops = o.reference_gflop * kGiga},
                          .ranks_per_core = o.ranks_per_gpu,
                          .quiet = o.quiet};
  return out;
}

BackEnd back_end_of(const ValidateOptions& o) {
  return {o.backend, o.ranks_per_gpu, o.quiet, link_of_parts(o.gpu_parts, o.backend)};
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

ExitCode run_plan(const ValidateOptions& o) {
  const PreparedPlan plan = load_plan(o.plan, o.overrides);
  const validate::RankSetup setup = setup_of(o);
  const planner::LayerCase whole = (o.step ? planner::layer_step_case : planner::layer_case)(
      plan.inputs.model, plan.inputs.workload, plan.plan.candidate, plan.cluster.ranks_per_node(), o.layer);
  const planner::LayerCase layer = planner::as_executed(planner::scaled(whole, o.scale), o.backend != "host");
  (void)planner::lower(layer);
  if (o.backend == "host") validate::check_ranks(layer, setup);
  if (o.backend == "host") validate::check_size(layer, setup);
  // The layer is predicted on the first ranks of the plan's cluster.
  const Cluster cluster = planner::build_cluster_of(o.plan, plan.inputs.cluster, layer.ranks());
  const validate::JobRun run =
      execute(back_end_of(o), {.limits = setup.limits, .cases = {layer}, .measure = {}}, layer.ranks());
  if (const auto code = ended_early(run)) return *code;
  const ValidatedCase result = validated(layer, run.answer.cases.front(), cluster);
  if (!result.result.refused.empty()) wrong(o.plan, result.result.refused);
  const std::optional<double> max_error =
      o.max_error.empty() ? std::nullopt : std::optional(share("--max-error", o.max_error));
  const ValidateHead head{cluster.name, o.plan,
                          o.scale,      hardware_of(back_end_of(o), run.answer),
                          run.command,  planner::left_out(plan.inputs.model, layer, o.layer),
                          max_error};
  if (!o.trace.empty()) write_file_atomically(o.trace, validate::overlaid_trace(lower(layer), result.validation));
  if (o.json)
    fmt::print("{}", validate_json(head, result));
  else
    print_page(stdout, validate_page(head, result));
  return code_of({result}, o);
}

ExitCode run_suite(const ValidateOptions& o) {
  const validate::Suite suite = validate::read_suite(planner::find_config("suites", o.suite));
  const std::string results = suite.name + ".validate.jsonl";
  check_outputs({results});
  const ExecutedSuite done = execute_suite(
      suite, {back_end_of(o), setup_of(o).limits, o.suite, o.layer, o.scale, std::filesystem::path(results), o.resume});
  if (!done.has_answers()) return done.early.value_or(ExitCode::Done);
  if (o.json)
    fmt::print("{}", suite_json(done.head, done.cases));
  else
    print_page(stdout, suite_page(done.head, done.cases));
  return done.early.value_or(code_of(done.cases, o));
}

ExitCode run_validate(const ValidateOptions& o) {
  if (o.plan.empty() == o.suite.empty()) wrong("validate", "needs a plan or a --suite");
  (void)link_of_parts(o.gpu_parts, o.backend);
  if (!o.max_error.empty()) (void)share("--max-error", o.max_error);
  if (!o.suite.empty() && !o.trace.empty()) wrong("--trace", "is of one plan, not of a suite");
  if (!o.suite.empty() && o.step) wrong("--step", "is of one plan, not of a suite");
  if (o.suite.empty() && o.resume) wrong("--resume", "is of a suite");
  check_outputs({o.trace});
  return o.suite.empty() ? run_plan(o) : run_suite(o);
}

}  // namespace

void add_validate_command(CLI::App& app, ExitCode& code) {
  auto* c = app.add_subcommand("validate", "Execute an MoE layer of a plan, and compare values and times");
  auto o = std::make_shared<ValidateOptions>();
  c->add_option("plan", o->plan, "The plan file");
  c->add_option("--suite", o->suite, "Cases of one layer to execute: a name of configs/suites or a path");
  c->add_option("--backend", o->backend, "host: CPU ranks over MPI; nccl: GPUs")
      ->required()
      ->check(CLI::IsMember({"host", "nccl"}));
  c->add_option("--layer", o->layer, "Which layer, from 0 (default: the first with experts)")
      ->check(CLI::NonNegativeNumber);
  c->add_flag("--step", o->step,
              "Execute a training step of the layer: also its norm, residual stream and shared experts, reduction of "
              "gradients, optimizer");
  c->add_option("--scale", o->scale, "Divide ranks, experts, tokens and sizes by N")->check(CLI::Range(1, 65536));
  c->add_option("--ranks-per-gpu", o->ranks_per_gpu, "Ranks that may share a core (host) or a GPU (nccl)")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  c->add_option("--gpu-parts", o->gpu_parts,
                "With nccl: ranks on parts of one GPU, joined by links of this bandwidth, e.g. 50GB/s");
  c->add_option("--iterations", o->iterations,
                "Timed runs (default: until the median is known to 5% or the budget ends)")
      ->check(CLI::Range(1, 1000));
  c->add_option("--reference-gflop", o->reference_gflop,
                "Work of the reference on a rank, above which only every n-th token is compared")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  c->add_option("--timeout", o->time_out, "How long a rank waits for the others")->capture_default_str();
  c->add_option("--budget", o->budget, "Time for the timed runs of one case")->capture_default_str();
  c->add_flag("--resume", o->resume, "Skip the cases of a suite that NAME.validate.jsonl already has");
  c->add_option("--max-error", o->max_error,
                "Exit with 1 if the error of the layer's predicted time is above this, e.g. 10%");
  c->add_option("--trace", o->trace, "Write a Chrome trace here: measured and predicted ranks");
  c->add_option("-C", o->overrides, "Override a value: cluster.a.b=c, model.a=b, workload.a=b")->take_all();
  c->add_flag("--json", o->json, "Print JSON");
  c->add_flag("--quiet", o->quiet, "No command and no progress on standard error");
  c->callback([o, &code] { code = run_validate(*o); });
}

}  // namespace moeplan::cli
