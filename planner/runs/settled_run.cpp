#include "planner/runs/settled_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/candidate/stage_layout.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/plan/inputs.hpp"

namespace moeplan::runs {

namespace {

/// Neither dispatchers nor gathered tokens return partial sums of expert shards, and a dispatcher has a price of its
/// own only where the cluster has its figures.
void settle_exchange(RunPlan& plan, const std::string& dispatcher, const Cluster& cluster) {
  planner::Candidate& c = plan.candidate;
  if (!c.all_to_all->is_dispatcher() && !c.all_to_all->gathers()) return;
  if (c.degrees.esp > 1) {
    c.all_to_all = "linear";
    plan.space.all_to_all = c.all_to_all;
    plan.approximations.push_back(fmt::format("dispatcher {}: priced as nccl with shards of experts", dispatcher));
  } else if (c.all_to_all->is_dispatcher() && !has_figures(cluster, *c.all_to_all)) {
    plan.approximations.push_back(
        fmt::format("dispatcher {}: priced by the links, {} has no figures of it", dispatcher, plan.cluster));
  }
}

/// Recomputation from the least to that of all layers.
std::vector<std::pair<Recompute, RecomputedLayers>> recomputation_levels(const RunPlan& plan) {
  std::vector<std::pair<Recompute, RecomputedLayers>> levels{{Recompute::Selective, {}}};
  std::int64_t most = 0;  // layers of a part
  for (const planner::StagePart& part : stage_parts(plan.model, plan.workload, plan.candidate))
    most = std::max(most, std::ssize(part.layers));
  for (std::int64_t n = 1; n < most; ++n) levels.push_back({Recompute::Full, {.first_of_part = n}});
  levels.push_back({Recompute::Full, {}});
  return levels;
}

void settle_recompute(RunPlan& plan, const Cluster& cluster) {
  const auto needs_less_memory = [&](Recompute recompute, const RecomputedLayers& layers) {
    plan.workload.recompute = plan.candidate.recompute = recompute;
    plan.workload.recompute_layers = layers;
    const planner::Problem problem(plan.model, plan.workload, cluster);
    const auto no = planner::evaluate(problem, plan.candidate, planner::Depth::Memory).infeasibility;
    return no && no->constraint == Constraint::Memory;
  };
  if (!needs_less_memory(Recompute::None, {})) return;
  for (const auto& [recompute, layers] : recomputation_levels(plan)) {
    if (needs_less_memory(recompute, layers)) continue;
    std::erase(plan.defaults, "recompute none");
    const std::string of = layers.all() ? "" : fmt::format(" of layers {}", name_of(layers));
    plan.defaults.push_back(fmt::format("recompute {}{}: with less it does not fit", name_of(recompute), of));
    return;
  }
  plan.workload.recompute_layers = {};
  plan.workload.recompute = plan.candidate.recompute = Recompute::None;
}

}  // namespace

Cluster cluster_of(RunPlan& plan) {
  const auto path = planner::find_config("clusters", plan.cluster);
  const ClusterSpec spec = read_cluster(planner::load_cluster_document(path));
  if (const auto* machine = std::get_if<ClusterTemplate>(&spec.machine)) {
    const std::int64_t all = machine->gpus_per_node, used = used_per_node(*machine, plan.world);
    if (used < all)
      plan.defaults.push_back(fmt::format("cluster {}: {} of {} GPUs in each NVLink domain", plan.cluster, used, all));
  }
  return planner::build_cluster_of(path, spec, plan.world);
}

void settle(RunPlan& plan, const profiler::RunRow& row, const Cluster& cluster) {
  settle_exchange(plan, row.dispatcher, cluster);
  if (!plan.is_searched && row.recompute.empty() && row.measured_step(plan.tokens())) settle_recompute(plan, cluster);
}

planner::SearchSpace short_search(planner::SearchSpace space) {
  space.most_simulated = 4;
  space.most_refined = 4;
  space.most_varied = 0;
  space.most_ordered = 0;
  space.threads = 1;
  return space;
}

}  // namespace moeplan::runs
