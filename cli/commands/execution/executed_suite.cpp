#include "cli/commands/execution/executed_suite.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "cli/commands/progress.hpp"
#include "cuda_runtime/validate/suite_run.hpp"
#include "planner/plan/inputs.hpp"

namespace moeplan::cli {

namespace {

/// The layer whose variants the suite executes.
planner::LayerCase layer_of(const validate::Suite& suite, const planner::Inputs& inputs, const SuiteRequest& request) {
  const Cluster whole = planner::build_cluster_of(request.source, inputs.cluster, suite.base.degrees.world());
  const planner::LayerCase planned =
      layer_case(inputs.model, inputs.workload, suite.base, whole.ranks_per_node(), request.layer);
  const planner::LayerCase layer =
      planner::as_executed(planner::scaled(planned, request.scale), request.on.name != "host");
  if (request.on.name != "host") return layer;
  const validate::RankSetup setup{request.limits, request.on.ranks_per_gpu, request.on.quiet};
  validate::check_ranks(layer, setup);
  validate::check_size(layer, setup);
  return layer;
}

}  // namespace

ValidatedCase validated(const planner::LayerCase& layer, validate::ExecutionResult result, const Cluster& cluster) {
  ValidatedCase out{layer, std::move(result), {}};
  if (out.was_executed()) out.validation = validate::compare(lower(layer), cluster, out.result);
  return out;
}

bool ExecutedSuite::has_answers() const { return !head.hardware.hosts.empty(); }

ExecutedSuite execute_suite(const validate::Suite& suite, const SuiteRequest& request) {
  const planner::Inputs inputs = planner::read_inputs(suite.inputs);
  const planner::LayerCase layer = layer_of(suite, inputs, request);
  // It is predicted on the first ranks of the configured cluster.
  const Cluster cluster = planner::build_cluster_of(request.source, inputs.cluster, layer.ranks());
  const std::vector<planner::LayerCase> cases = validate::cases_of(suite, layer);
  validate::SuiteStore store(request.results, request.resumes);
  Progress progress("validate " + suite.name, request.on.quiet);
  std::map<std::size_t, ValidatedCase> results;  // by case
  std::vector<planner::LayerCase> missing;
  std::vector<std::size_t> places;  // of the missing ones
  ExecutedSuite out{{cluster.name, suite.name, request.scale, {}, {}}, {}};
  const auto add = [&](std::size_t at, const validate::Answer& answer) {
    if (!answer.hosts.empty()) out.head.hardware = hardware_of(request.on, answer);
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
      [&](const auto& some, const validate::OnCase& on_case) {
        return execute(request.on, {.limits = request.limits, .cases = some, .measure = {}}, layer.ranks(), on_case);
      },
      [&](const planner::LayerCase& c, const validate::Answer& answer) {
        if (answer.cases.front().failed.empty()) store.add(c, answer);
        add(places.at(next++), answer);
      });
  out.head.command = run.command;
  out.early = ended_early(run);
  for (auto& [at, result] : results) out.cases.push_back(std::move(result));
  return out;
}

}  // namespace moeplan::cli
