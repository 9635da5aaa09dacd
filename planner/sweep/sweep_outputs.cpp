#include "planner/sweep/sweep_outputs.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/plan/fixed_decisions.hpp"
#include "planner/report/json_parts.hpp"

namespace moeplan::sweep {

namespace {

std::vector<std::string> all_decisions() {
  std::vector<std::string> keys;
  const planner::Json decision = planner::decision_json({});
  for (const auto& [key, value] : decision.items()) keys.push_back(key);
  return keys;
}

/// The decisions that a plan file can contain.
std::vector<std::string> settable_decisions() {
  std::vector<std::string> keys;
  const Node decision = planner::decision_document({});
  for (const Entry& e : decision.entries) keys.push_back(e.key);
  return keys;
}

/// Decisions that do not apply to a single layer.
constexpr std::array kIterationOnly{"pp",         "cp",          "virtual_stages", "pipeline", "sequence_parallel",
                                    "ep_overlap", "delay_wgrad", "micro_batch",    "order"};

}  // namespace

std::vector<std::string> decision_keys(SweepKind kind) {
  if (kind == SweepKind::Plan) return planner::fixable_decisions();
  std::vector<std::string> keys = settable_decisions();
  if (kind == SweepKind::Layer) {
    std::erase_if(keys, [](const std::string& key) {
      return std::find(kIterationOnly.begin(), kIterationOnly.end(), key) != kIterationOnly.end();
    });
  }
  return keys;
}

std::vector<std::string> possible_outputs(SweepKind kind) {
  std::vector<std::string> names{"makespan_s",   "closed_form_s", "schedule_bound_s",
                                 "schedule_gap", "compute_s",     "exposed_communication_s"};
  names.emplace_back("memory_bytes");
  if (kind != SweepKind::Plan) names.emplace_back("balance_degree");
  if (kind != SweepKind::Layer) {
    names.insert(names.end(), {"tokens_per_s_per_gpu", "model_flops_utilization"});
  }
  if (kind == SweepKind::Plan) {
    names.insert(names.end(), {"lower_bound_s", "optimality_gap", "enumerated", "feasible", "simulated"});
  }
  for (const std::string& key : kind == SweepKind::Plan ? all_decisions() : decision_keys(kind)) names.push_back(key);
  return names;
}

std::vector<std::string> usual_outputs(SweepKind kind) {
  switch (kind) {
    case SweepKind::Plan:
      return {"makespan_s",
              "lower_bound_s",
              "memory_bytes",
              "tokens_per_s_per_gpu",
              "model_flops_utilization",
              "schedule",
              "pp",
              "virtual_stages",
              "tp",
              "sequence_parallel",
              "cp",
              "dp",
              "ep",
              "esp",
              "edp",
              "micro_batch"};
    case SweepKind::Candidate:
      return {"makespan_s", "schedule_bound_s", "memory_bytes", "tokens_per_s_per_gpu", "model_flops_utilization"};
    case SweepKind::Layer: return {"makespan_s", "closed_form_s", "schedule_bound_s"};
  }
  return {};
}

bool is_number(const std::string& output) {
  const planner::Json decisions = planner::decision_json({});
  const auto decision = decisions.find(output);
  return decision == decisions.end() || decision->is_number();
}

}  // namespace moeplan::sweep
