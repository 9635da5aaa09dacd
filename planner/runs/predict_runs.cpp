#include "planner/runs/predict_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "model/base/in_parallel.hpp"
#include "model/base/whole_numbers.hpp"
#include "model/text/unit_text.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/runs/run_plan.hpp"
#include "planner/search/search.hpp"

namespace moeplan::runs {

namespace {

using profiler::RunRow;
using profiler::RunStatus;
using profiler::ScoredRun;

constexpr std::string_view kDeduplicating = "node_dedup";  // an all-to-all that needs several nodes

/// The GPUs of each node that a job uses: all of them, unless they do not divide the job; then the largest number of
/// at least half of them that does. Jobs on NVLink domains of 72 take 64 of each.
std::int64_t used_of(std::int64_t gpus_per_node, std::int64_t world) {
  if (world <= gpus_per_node || world % gpus_per_node == 0) return gpus_per_node;
  for (std::int64_t used = gpus_per_node; 2 * used >= gpus_per_node; --used) {
    if (world % used == 0) return used;
  }
  return gpus_per_node;
}

Cluster cluster_of(const std::string& name, std::int64_t world, std::vector<std::string>& notes) {
  const auto path = planner::find_config("clusters", name);
  ClusterSpec spec = read_cluster(planner::load_cluster_document(path));
  if (auto* machine = std::get_if<ClusterTemplate>(&spec.machine)) {
    const std::int64_t all = machine->gpus_per_node, used = used_of(all, world);
    if (used < all && machine->fabric && std::holds_alternative<NvSwitch>(machine->intra_node)) {
      notes.push_back(fmt::format("cluster {}: {} of {} GPUs in each NVLink domain", name, used, all));
      machine->fabric->nics_per_node = std::max<std::int64_t>(1, machine->fabric->nics_per_node * used / all);
      machine->gpus_per_node = used;
    }
  }
  return planner::build_cluster_of(path, spec, world);
}

std::string memory_reason(const MemoryUse& m, const Cluster& cluster) {
  return fmt::format(
      "needs {} GiB of {}: weights {}, gradients {}, optimizer {}, activations {}, working buffers {}, runtime {}",
      gib(m.total()), gib(cluster.memory_per_rank()), gib(m.weights), gib(m.gradients), gib(m.optimizer),
      gib(m.activations), gib(m.working), gib(m.runtime));
}

/// A search as short as is sensible for the few decisions that rows leave open.
planner::SearchSpace short_search(planner::SearchSpace space) {
  space.most_simulated = 4;
  space.most_refined = 4;
  space.most_varied = 0;
  space.most_ordered = 0;
  space.threads = 1;
  return space;
}

class RunPrediction {
 public:
  RunPrediction(const RunRow& row, RunPlan plan, ScoredRun& out)
      : row_(row), plan_(std::move(plan)), out_(out), cluster_(cluster_of(plan_.cluster, plan_.world, plan_.defaults)) {
    out_.assumed = plan_.defaults;
    out_.approximations = plan_.approximations;
    out_.measured = row_.measured_step(plan_.tokens());
    out_.seconds_per_token_and_gpu = static_cast<double>(plan_.world) / plan_.tokens();
  }

  void predict() {
    if (const auto missing = planner::missing_figures(plan_.workload, cluster_.gpu))
      return refuse("precision: " + *missing);
    settle_exchange();
    if (!plan_.is_searched) settle_recompute();
    const planner::Problem problem(plan_.model, plan_.workload, cluster_);
    if (!plan_.is_searched) return evaluate(problem, plan_.candidate);
    const planner::SearchResult found = planner::search(problem, short_search(plan_.space));
    if (!found.ranked.empty()) return evaluate(problem, found.ranked.front().candidate);
    if (found.nearest_miss) return infeasible(found.nearest_miss->memory);
    std::string reasons;
    for (const auto& [reason, count] : found.rejected) reasons += (reasons.empty() ? "" : "; ") + reason;
    refuse(reasons.empty() ? "no division of the GPUs has these degrees" : reasons);
  }

 private:
  /// Rows are deduplicated on their way between nodes; inside a node they are exchanged directly.
  void settle_exchange() {
    planner::Candidate& c = plan_.candidate;
    const Degrees& d = c.degrees;
    if (c.all_to_all != kDeduplicating) return;
    if (plan_.space.ep && d.esp == 1 && d.ep > cluster_.ranks_per_node()) return;
    c.all_to_all = "linear";
    plan_.space.all_to_all = c.all_to_all;
    out_.approximations.push_back(fmt::format("dispatcher {}: priced as nccl inside a node", row_.dispatcher));
  }

  /// A run that was timed did fit: if its recomputation is not known, it is the least that fits.
  void settle_recompute() {
    if (!row_.recompute.empty() || !out_.measured) return;
    for (const Recompute recompute : {Recompute::None, Recompute::Selective, Recompute::Full}) {
      plan_.workload.recompute = plan_.candidate.recompute = recompute;
      const planner::Problem problem(plan_.model, plan_.workload, cluster_);
      const auto no = planner::evaluate(problem, plan_.candidate, planner::Depth::Memory).infeasibility;
      if (no && no->constraint == Constraint::Memory) continue;
      if (recompute == Recompute::None) return;
      std::erase(out_.assumed, "recompute none");
      out_.assumed.push_back(fmt::format("recompute {}: with less it does not fit", name_of(recompute)));
      return;
    }
    plan_.workload.recompute = plan_.candidate.recompute = Recompute::None;
  }

  void refuse(std::string reason) {
    out_.status = RunStatus::Refused;
    out_.reason = std::move(reason);
  }

  void infeasible(const MemoryUse& memory) {
    out_.status = RunStatus::Infeasible;
    out_.predicted_memory = memory.total();
    out_.reason = memory_reason(memory, cluster_);
  }

  void evaluate(const planner::Problem& problem, const planner::Candidate& candidate) {
    if (const auto reason = planner::evaluate(problem, candidate, planner::Depth::Feasibility).infeasibility)
      return refuse(reason->text);
    out_.microbatches = plan_.microbatches(candidate);
    const planner::Evaluation memory = planner::evaluate(problem, candidate, planner::Depth::Memory);
    if (memory.infeasibility) return infeasible(memory.evaluated.memory);
    out_.status = RunStatus::Ok;
    out_.predicted_memory = memory.evaluated.memory.total();
    out_.predicted = planner::simulated_makespan(problem, candidate).seconds();
  }

  const RunRow& row_;
  RunPlan plan_;
  ScoredRun& out_;
  Cluster cluster_;
};

}  // namespace

std::vector<ScoredRun> predict_runs(std::span<const RunRow> table, const PredictionOptions& options) {
  RunPlanner planner;
  std::vector<ScoredRun> out(table.size());
  std::vector<std::optional<RunPlan>> plans(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    const RunRow& row = table[i];
    out[i] = {.row = i, .measured = row.step_time, .measured_memory = row.peak_memory};
    auto planned = planner.plan(row);
    if (auto* plan = std::get_if<RunPlan>(&planned)) plans[i] = std::move(*plan);
    if (const auto* refusal = std::get_if<Refusal>(&planned)) out[i].reason = refusal->reason;
  }
  std::atomic<std::int64_t> done{0};
  in_parallel(table.size(), planner::SearchSpace{.threads = options.threads}.thread_count(), [&](std::size_t i) {
    if (plans[i]) {
      try {
        RunPrediction(table[i], std::move(*plans[i]), out[i]).predict();
      } catch (const InputError& e) {
        out[i].status = RunStatus::Refused;
        out[i].reason = e.diagnostics().front().text();
      }
    }
    if (options.progress) options.progress(++done, std::ssize(table));
  });
  return out;
}

}  // namespace moeplan::runs
