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
#include "planner/runs/settled_run.hpp"
#include "planner/search/search.hpp"

namespace moeplan::runs {

namespace {

using profiler::RunRow;
using profiler::RunStatus;
using profiler::ScoredRun;

std::string memory_reason(const MemoryUse& m, const Cluster& cluster) {
  return fmt::format(
      "needs {} GiB of {}: weights {}, gradients {}, optimizer {}, activations {}, working buffers {}, runtime {}",
      gib(m.total()), gib(cluster.memory_per_rank()), gib(m.weights), gib(m.gradients), gib(m.optimizer),
      gib(m.activations), gib(m.working), gib(m.runtime));
}

class RunPrediction {
 public:
  RunPrediction(const RunRow& row, RunPlan plan, ScoredRun& out)
      : row_(row), plan_(std::move(plan)), out_(out), cluster_(cluster_of(plan_)) {
    out_.measured = row_.measured_step(plan_.tokens());
    out_.measured_memory = plan_.measured_memory;
    out_.seconds_per_token_and_gpu = static_cast<double>(plan_.world) / plan_.tokens();
  }

  void predict() {
    if (const auto missing = planner::missing_figures(plan_.workload, cluster_.gpu))
      return refuse(missing->key + ": " + missing->what);
    settle(plan_, row_, cluster_);
    out_.assumed = plan_.defaults;
    out_.approximations = plan_.approximations;
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
  void refuse(std::string reason) {
    out_.status = RunStatus::Refused;
    out_.reason = std::move(reason);
  }

  /// What the row's measured memory counts of it.
  [[nodiscard]] Bytes counted(const MemoryUse& memory) const {
    switch (plan_.memory_counts) {
      case MemoryCounts::Tensors: return memory.allocated();
      case MemoryCounts::Reserved: return memory.reserved();
      case MemoryCounts::Device: return memory.total();
    }
    return memory.total();
  }

  void infeasible(const MemoryUse& memory) {
    out_.status = RunStatus::Infeasible;
    out_.predicted_memory = counted(memory);
    out_.reason = memory_reason(memory, cluster_);
  }

  void evaluate(const planner::Problem& problem, const planner::Candidate& candidate) {
    if (const auto reason = planner::evaluate(problem, candidate, planner::Depth::Feasibility).infeasibility)
      return refuse(reason->text);
    out_.microbatches = plan_.microbatches(candidate);
    const planner::Evaluation memory = planner::evaluate(problem, candidate, planner::Depth::Memory);
    if (memory.infeasibility) return infeasible(memory.evaluated.memory);
    out_.status = RunStatus::Ok;
    out_.predicted_memory = counted(memory.evaluated.memory);
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
