#include <nlohmann/json.hpp>

#include "cli/pages/page_parts.hpp"
#include "cli/pages/plans/plan_report.hpp"
#include "planner/lowering/blocks/gated_routing.hpp"
#include "planner/report/json_parts.hpp"

namespace moeplan::cli {

namespace {

/// The model's layers with their schedules; one schedule for each sequence of equal layers.
planner::Json layers(const ModelSpec& model, const planner::Candidate& c) {
  planner::Json out = planner::Json::array();
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      const bool moe = std::holds_alternative<Moe>(layer.ffn);
      planner::Json j{{"layers", run.repeat}, {"ffn", moe ? "moe" : "dense"}};
      if (moe) j["schedule"] = c.schedule.name();
      out.push_back(std::move(j));
    }
  }
  return out;
}

void add_prediction(planner::Json& j, const planner::Prediction& p) {
  j["makespan_s"] = p.makespan.seconds().value();
  j["closed_form_s"] = p.estimate.closed_form.value();
  j["schedule_bound_s"] = p.estimate.lower_bound.value();
  j["schedule_bound_by"] = p.estimate.bound_by;
  j["schedule_gap"] = p.schedule_gap();
  planner::add_binding_rank(j, p);
  j["compute_s"] = p.binding.compute.value();
  j["memory_bytes"] = p.memory.total().value();
  j["memory_parts_bytes"] = planner::memory_json(p.memory);
  j["tokens_per_s_per_gpu"] = p.tokens_per_s_per_gpu;
  j["model_flops_utilization"] = p.model_flops_utilization;
  j["classes"] = planner::class_times_json(p.binding);
}

void add_pricing_warnings(planner::Json& j, const Cluster& cluster, const Program& program) {
  if (auto warnings = pricing_warnings(cluster, program); !warnings.empty())
    j["pricing_warnings"] = std::move(warnings);
}

planner::Json gate_json(const PlanReport& r) {
  const planner::GateEffect e = planner::gate_effect(r.inputs.model, r.inputs.workload,
                                                     r.result.ranked.front().candidate, r.cluster.ranks_per_node());
  return {{"selections", e.selections},
          {"rerouted_share", e.rerouted},
          {"dropped_share", e.dropped},
          {"padding_share", e.padding}};
}

planner::Json tutel_json(const std::vector<planner::TutelDictionary>& dictionaries) {
  planner::Json out = planner::Json::array();
  for (const planner::TutelDictionary& d : dictionaries) {
    planner::Json entries = planner::Json::array();
    for (const planner::TutelEntry& e : d.entries) {
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

planner::Json framework_json(const PlanReport& r) {
  planner::Json out{{"name", r.framework->name}, {"version", r.framework->version}};
  if (!r.beyond) return out;
  out["beyond"] = planner::decision_json(r.beyond->candidate);
  out["beyond"]["makespan_s"] = r.beyond->makespan->seconds().value();
  return out;
}

planner::Json rejected(const planner::SearchResult& result) {
  planner::Json out = planner::Json::object();
  for (const auto& [reason, count] : result.rejected) out[reason] = count;
  return out;
}

planner::Json search_json(const planner::SearchResult& r) {
  planner::Json out{{"enumerated", r.enumerated},
                    {"feasible", std::ssize(r.ranked) + r.deferred},
                    {"unpriced", r.unpriced},
                    {"simulated", r.simulated},
                    {"pruned", r.pruned}};
  if (r.undecided > 0) out["undecided"] = r.undecided;
  if (r.is_cut) out["is_cut"] = true;
  return out;
}

}  // namespace

std::string plan_json(const PlanReport& r) {
  planner::Json j = planner::json_head(r.inputs, r.cluster);
  const planner::Prediction& best = r.predictions.front();
  planner::Json b = planner::decision_json(r.result.ranked.front().candidate);
  b["layers"] = layers(r.inputs.model, r.result.ranked.front().candidate);
  add_prediction(b, best);
  const planner::Evaluated& found = r.result.ranked.front();
  b["order_search"] = {{"answered_by", found.order_answered_by()},
                       {"blocks", found.order.blocks},
                       {"fixed", found.order.fixed},
                       {"improved", found.order.improved},
                       {"states", found.order.states}};
  if (r.inputs.workload.gate.kind != GateKind::TopK) b["gate"] = gate_json(r);
  b["lower_bound_s"] = r.result.global_bound.value();
  b["optimality_gap"] = best.makespan.seconds() / r.result.global_bound - 1;
  j["best"] = std::move(b);
  j["candidates"] = planner::Json::array();
  for (std::size_t i = 0; i < r.predictions.size(); ++i) {
    planner::Json c = planner::decision_json(r.result.ranked[i].candidate);
    add_prediction(c, r.predictions[i]);
    j["candidates"].push_back(std::move(c));
  }
  j["confidence"] = planner::confidence_json(r.inputs);
  add_pricing_warnings(j, r.cluster, best.program);
  if (r.framework) j["framework"] = framework_json(r);
  if (!r.tutel.empty()) j["tutel_dictionaries"] = tutel_json(r.tutel);
  if (const auto texts = planner::approximations_of(r.documents.model); !texts.empty()) j["approximations"] = texts;
  j["rejected"] = rejected(r.result);
  j["search"] = search_json(r.result);
  j["timing"] = {{"wall_s", r.wall_s}};
  return planner::json_text(j);
}

std::string infeasible_json(const planner::Inputs& inputs, const Cluster& cluster, const planner::SearchResult& result,
                            const std::optional<planner::WouldFit>& would_fit) {
  planner::Json j = planner::json_head(inputs, cluster);
  j["best"] = nullptr;
  j["candidates"] = planner::Json::array();
  j["rejected"] = rejected(result);
  j["search"] = search_json(result);
  if (result.nearest_miss) {
    planner::Json miss = planner::decision_json(result.nearest_miss->candidate);
    miss["memory_parts_bytes"] = planner::memory_json(result.nearest_miss->memory);
    miss["lacking_bytes"] = (result.nearest_miss->memory.total() - cluster.memory_per_rank()).value();
    j["nearest_miss"] = std::move(miss);
    if (result.fits_with) j["fits_with_recompute"] = name_of(*result.fits_with);
  }
  if (would_fit) {
    planner::Json w{{"most_tried_gpus", would_fit->most_tried_gpus}};
    if (would_fit->more) w["more_gpus"] = *would_fit->more;
    if (would_fit->fewer) w["fewer_gpus"] = *would_fit->fewer;
    if (would_fit->global_batch) w["global_batch"] = *would_fit->global_batch;
    j["would_fit"] = std::move(w);
  }
  return planner::json_text(j);
}

std::string simulate_json(const planner::Plan& plan, const planner::Inputs& inputs, const Cluster& cluster,
                          const planner::Prediction& p, double wall_s) {
  planner::Json j = planner::json_head(inputs, cluster);
  j["plan"] = planner::decision_json(plan.candidate);
  j["makespan_s"] = p.makespan.seconds().value();
  j["planned_makespan_s"] = plan.makespan.seconds().value();
  j["lower_bound_s"] = p.estimate.lower_bound.value();
  j["lower_bound_by"] = p.estimate.bound_by;
  j["confidence"] = planner::confidence_json(inputs);
  add_pricing_warnings(j, cluster, p.program);
  planner::add_binding_rank(j, p);
  j["memory_bytes"] = p.memory.total().value();
  j["classes"] = planner::class_times_json(p.binding);
  j["streams"] = planner::streams_json(p);
  j["links"] = planner::links_json(p, cluster.topology);
  j["timing"] = {{"wall_s", wall_s}};
  return planner::json_text(j);
}

}  // namespace moeplan::cli
