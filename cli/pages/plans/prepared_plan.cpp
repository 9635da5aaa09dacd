#include "cli/pages/plans/prepared_plan.hpp"

#include <fmt/format.h>

#include "planner/lowering/feasibility.hpp"

namespace moeplan::cli {

PreparedPlan prepare_plan(planner::Plan plan, const std::string& file, const std::vector<std::string>& overrides) {
  planner::apply_overrides(plan.inputs, overrides);
  planner::Inputs inputs = planner::read_inputs(plan.inputs);
  Cluster cluster = planner::build_cluster_of(file, inputs.cluster, plan.world_size);
  // An overridden workload may contradict the plan's decision; the workload takes precedence.
  if (inputs.workload.recompute) plan.candidate.recompute = *inputs.workload.recompute;
  if (inputs.workload.mode == Mode::Forward) {
    plan.candidate.pipeline = planner::PipelineShape::Interleaved;
    plan.candidate = planner::in_turn(std::move(plan.candidate));
  }
  if (const auto reason =
          planner::infeasibility(inputs.model, inputs.workload, plan.candidate, cluster.ranks_per_node())) {
    throw InputError({{file}, "decision", fmt::format("cannot be lowered: {}", reason->text)});
  }
  return {std::move(plan), std::move(inputs), std::move(cluster)};
}

PreparedPlan load_plan(const std::string& file, const std::vector<std::string>& overrides) {
  return prepare_plan(planner::read_plan(file), file, overrides);
}

}  // namespace moeplan::cli
