#include "planner/runs/imported_plan.hpp"

#include <fmt/format.h>

#include "model/text/unit_text.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/runs/run_model.hpp"
#include "planner/runs/settled_run.hpp"
#include "planner/search/search.hpp"

namespace moeplan::runs {

namespace {

planner::PlanInputs documents_of(const RunPlan& plan) {
  planner::PlanInputs inputs;
  inputs.cluster_source = planner::find_config("clusters", plan.cluster);
  inputs.cluster = planner::load_cluster_document(inputs.cluster_source);
  inputs.model = model_document(plan.model);
  inputs.workload = workload_document(plan.workload);
  return inputs;
}

/// The row's candidate, or the fastest of those that it leaves open.
std::optional<planner::Candidate> decided(const RunPlan& plan, const planner::Problem& problem) {
  if (!plan.is_searched) return plan.candidate;
  const planner::SearchResult found = planner::search(problem, short_search(plan.space));
  if (found.ranked.empty()) return std::nullopt;
  return found.ranked.front().candidate;
}

}  // namespace

std::variant<ImportedPlan, Refusal> planned(const planner::Problem& problem, const planner::Candidate& candidate,
                                            planner::PlanInputs documents) {
  if (const auto no = planner::evaluate(problem, candidate, planner::Depth::Feasibility).infeasibility)
    return Refusal{no->text};
  const planner::Prediction p = planner::predict(problem, candidate);
  const Cluster& cluster = problem.cluster();
  ImportedPlan out{.plan = {.inputs = std::move(documents),
                            .world_size = cluster.world_size(),
                            .candidate = candidate,
                            .makespan = p.makespan,
                            .estimate = p.estimate,
                            .global_bound = p.estimate.lower_bound}};
  if (p.memory.total() > cluster.memory_per_rank())
    out.misfit = fmt::format("needs {} GiB of {}", gib(p.memory.total()), gib(cluster.memory_per_rank()));
  return out;
}

std::variant<ImportedPlan, Refusal> imported_plan(const profiler::RunRow& row, const ModelSpec& model) {
  auto mapped = RunPlanner().plan(row, model);
  if (const auto* refusal = std::get_if<Refusal>(&mapped)) return *refusal;
  RunPlan plan = std::get<RunPlan>(std::move(mapped));
  plan.model = recognised(plan.model);
  const Cluster cluster = cluster_of(plan);
  if (const auto missing = planner::missing_figures(plan.workload, cluster.gpu))
    return Refusal{missing->key + ": " + missing->what};
  settle(plan, row, cluster);
  const planner::Problem problem(plan.model, plan.workload, cluster);
  const auto candidate = decided(plan, problem);
  if (!candidate) return Refusal{"no plan with these degrees fits"};
  auto out = planned(problem, *candidate, documents_of(plan));
  if (auto* imported = std::get_if<ImportedPlan>(&out)) {
    imported->defaults = plan.defaults;
    imported->approximations = plan.approximations;
    imported->measured = row.measured_step(plan.tokens());
  }
  return out;
}

}  // namespace moeplan::runs
