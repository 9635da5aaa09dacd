#include <nlohmann/json.hpp>

#include "cli/json_parts.hpp"
#include "cli/plan_report.hpp"
#include "planner/gated_routing.hpp"

namespace moeplan {

namespace {

/// A schedule is chosen for every run of equal layers.
Json layers(const ModelSpec& model, const Candidate& c) {
  Json out = Json::array();
  for (const LayerRun& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      const bool moe = std::holds_alternative<Moe>(layer.ffn);
      Json j{{"layers", run.repeat}, {"ffn", moe ? "moe" : "dense"}};
      if (moe) j["schedule"] = c.schedule;
      out.push_back(std::move(j));
    }
  }
  return out;
}

void add_prediction(Json& j, const Prediction& p) {
  j["makespan_s"] = p.makespan.seconds().value();
  j["closed_form_s"] = p.estimate.closed_form.value();
  j["schedule_bound_s"] = p.estimate.lower_bound.value();
  j["schedule_bound_by"] = p.estimate.bound_by;
  j["schedule_gap"] = p.makespan.seconds() / p.estimate.lower_bound - 1;
  add_binding_rank(j, p);
  j["compute_s"] = p.binding.compute.value();
  j["memory_bytes"] = p.memory.total().value();
  j["memory_parts_bytes"] = memory_json(p.memory);
  j["tokens_per_s_per_gpu"] = p.tokens_per_s_per_gpu;
  j["model_flops_utilization"] = p.model_flops_utilization;
  j["classes"] = class_times_json(p.binding);
}

Json gate_json(const PlanReport& r) {
  const GateEffect e =
      gate_effect(r.inputs.model, r.inputs.workload, r.result.ranked.front().candidate, r.cluster.ranks_per_node());
  return {{"selections", e.selections},
          {"rerouted_share", e.rerouted},
          {"dropped_share", e.dropped},
          {"padding_share", e.padding}};
}

Json tutel_json(const std::vector<TutelDictionary>& dictionaries) {
  Json out = Json::array();
  for (const TutelDictionary& d : dictionaries) {
    Json entries = Json::array();
    for (const TutelEntry& e : d.entries) {
      entries.push_back({{"key", e.key},
                         {"capacity", e.capacity},
                         {"adaptive", e.best.r},
                         {"pipeline_degree", e.best.pipeline_degree},
                         {"all_to_all", e.best.all_to_all},
                         {"layer_s", e.time.seconds().value()},
                         {"trials", e.trials}});
    }
    out.push_back({{"window", d.window},
                   {"experts", d.experts},
                   {"most_adaptive", d.most_adaptive},
                   {"most_trials", d.most_trials},
                   {"entries", std::move(entries)}});
  }
  return out;
}

Json rejected(const SearchResult& result) {
  Json out = Json::object();
  for (const auto& [reason, count] : result.rejected) out[reason] = count;
  return out;
}

Json search_json(const SearchResult& r) {
  return {{"enumerated", r.enumerated},
          {"feasible", std::ssize(r.ranked) + r.set_aside},
          {"simulated", r.simulated},
          {"pruned", r.pruned}};
}

}  // namespace

std::string plan_json(const PlanReport& r) {
  Json j = json_head(r.inputs, r.cluster);
  const Prediction& best = r.predictions.front();
  Json b = decision_json(r.result.ranked.front().candidate);
  b["layers"] = layers(r.inputs.model, r.result.ranked.front().candidate);
  add_prediction(b, best);
  const Evaluated& found = r.result.ranked.front();
  b["order_search"] = {{"answered_by", found.order_answered_by()},
                       {"blocks", found.order.blocks},
                       {"fixed", found.order.fixed},
                       {"improved", found.order.improved},
                       {"states", found.order.states}};
  if (r.inputs.workload.gate.kind != GateKind::TopK) b["gate"] = gate_json(r);
  b["lower_bound_s"] = r.result.least_bound.value();
  b["optimality_gap"] = best.makespan.seconds() / r.result.least_bound - 1;
  j["best"] = std::move(b);
  j["candidates"] = Json::array();
  for (std::size_t i = 0; i < r.predictions.size(); ++i) {
    Json c = decision_json(r.result.ranked[i].candidate);
    add_prediction(c, r.predictions[i]);
    j["candidates"].push_back(std::move(c));
  }
  if (!r.tutel.empty()) j["tutel_dictionaries"] = tutel_json(r.tutel);
  j["rejected"] = rejected(r.result);
  j["search"] = search_json(r.result);
  j["timing"] = {{"wall_s", r.wall_s}};
  return json_text(j);
}

std::string infeasible_json(const Inputs& inputs, const Cluster& cluster, const SearchResult& result) {
  Json j = json_head(inputs, cluster);
  j["best"] = nullptr;
  j["candidates"] = Json::array();
  j["rejected"] = rejected(result);
  j["search"] = search_json(result);
  if (result.nearest_miss) {
    Json miss = decision_json(result.nearest_miss->candidate);
    miss["memory_parts_bytes"] = memory_json(result.nearest_miss->memory);
    miss["lacking_bytes"] = (result.nearest_miss->memory.total() - cluster.memory_per_rank()).value();
    j["nearest_miss"] = std::move(miss);
    if (result.fits_with) j["fits_with_recompute"] = name_of<Recompute>(kRecomputeNames, *result.fits_with);
  }
  return json_text(j);
}

std::string simulate_json(const Plan& plan, const Inputs& inputs, const Cluster& cluster, const Prediction& p,
                          double wall_s) {
  Json j = json_head(inputs, cluster);
  j["plan"] = decision_json(plan.candidate);
  j["makespan_s"] = p.makespan.seconds().value();
  j["planned_makespan_s"] = plan.makespan.seconds().value();
  j["lower_bound_s"] = p.estimate.lower_bound.value();
  j["lower_bound_by"] = p.estimate.bound_by;
  add_binding_rank(j, p);
  j["memory_bytes"] = p.memory.total().value();
  j["classes"] = class_times_json(p.binding);
  j["streams"] = streams_json(p);
  j["links"] = links_json(p, cluster.topology);
  j["timing"] = {{"wall_s", wall_s}};
  return json_text(j);
}

}  // namespace moeplan
