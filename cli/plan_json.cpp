#include <nlohmann/json.hpp>

#include "cli/plan_report.hpp"

namespace moeplan {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;

Json workload_json(const Workload& w) {
  return {{"name", w.name},
          {"global_batch", w.global_batch},
          {"sequence_length", w.sequence_length},
          {"mode", name_of<Mode>(kModeNames, w.mode)},
          {"dtype", name_of<Dtype>(kDtypeNames, w.dtype)},
          {"recompute", name_of<Recompute>(kRecomputeNames, w.recompute)},
          {"zero_stage", w.zero_stage},
          {"capacity_factor", w.capacity_factor ? Json(*w.capacity_factor) : Json(nullptr)},
          {"routing", name_of<RoutingShape>(kRoutingShapeNames, w.routing.shape)},
          {"seed", w.routing.seed}};
}

Json head(const Inputs& inputs, const Cluster& cluster) {
  return {{"schema_version", kSchemaVersion},
          {"cluster", cluster.name},
          {"gpu", cluster.gpu.name},
          {"model", inputs.model.name},
          {"workload", workload_json(inputs.workload)},
          {"world_size", cluster.world_size()}};
}

Json decision(const Candidate& c) {
  const Degrees& d = c.degrees;
  return {{"schedule", c.schedule}, {"all_to_all", c.all_to_all}, {"pipeline_degree", c.pipeline_degree},
          {"codec", c.codec},       {"placement", c.placement},   {"tp", d.tp},
          {"cp", d.cp},             {"ep", d.ep},                 {"esp", d.esp},
          {"dp", d.dp},             {"edp", d.edp},               {"pp", d.pp},
          {"micro_batch", c.micro_batch}};
}

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

Json memory_json(const MemoryUse& m) {
  return {{"total", m.total().value()},         {"weights", m.weights.value()},
          {"gradients", m.gradients.value()},   {"optimizer", m.optimizer.value()},
          {"activations", m.activations.value()}, {"working", m.working.value()}};
}

Json class_times(const RankTime& t) {
  Json out = Json::object();
  for (const ClassTime& c : t.classes) {
    out[std::string(name_of<OpClass>(kOpClassNames, c.op_class))] = {{"total_s", c.total.value()},
                                                                    {"not_hidden_s", visible(c).value()}};
  }
  return out;
}

void add_prediction(Json& j, const Prediction& p) {
  j["makespan_s"] = p.makespan.seconds().value();
  j["closed_form_s"] = p.estimate.closed_form.value();
  j["schedule_bound_s"] = p.estimate.lower_bound.value();
  j["schedule_bound_by"] = p.estimate.bound_by;
  j["schedule_gap"] = p.makespan.seconds() / p.estimate.lower_bound - 1;
  j["compute_s"] = p.slowest.compute.value();
  j["exposed_communication_s"] = p.slowest.exposed_communication.value();
  j["memory_bytes"] = p.memory.total().value();
  j["memory_parts_bytes"] = memory_json(p.memory);
  j["tokens_per_s_per_gpu"] = p.tokens_per_s_per_gpu;
  j["model_flops_utilization"] = p.model_flops_utilization;
  j["classes"] = class_times(p.slowest);
}

Json rejected(const SearchResult& result) {
  Json out = Json::object();
  for (const auto& [reason, count] : result.rejected) out[reason] = count;
  return out;
}

Json search_json(const SearchResult& r) {
  return {{"enumerated", r.enumerated}, {"feasible", r.ranked.size()}, {"simulated", r.simulated}, {"pruned", r.pruned}};
}

std::string dump(const Json& j) { return j.dump(2) + '\n'; }

}  // namespace

std::string plan_json(const PlanReport& r) {
  Json j = head(r.inputs, r.cluster);
  const Prediction& best = r.predictions.front();
  Json b = decision(r.result.ranked.front().candidate);
  b["layers"] = layers(r.inputs.model, r.result.ranked.front().candidate);
  add_prediction(b, best);
  b["lower_bound_s"] = r.result.least_bound.value();
  b["optimality_gap"] = best.makespan.seconds() / r.result.least_bound - 1;
  j["best"] = std::move(b);
  j["candidates"] = Json::array();
  for (std::size_t i = 0; i < r.predictions.size(); ++i) {
    Json c = decision(r.result.ranked[i].candidate);
    add_prediction(c, r.predictions[i]);
    j["candidates"].push_back(std::move(c));
  }
  j["rejected"] = rejected(r.result);
  j["search"] = search_json(r.result);
  j["timing"] = {{"wall_s", r.wall_s}};
  return dump(j);
}

std::string infeasible_json(const Inputs& inputs, const Cluster& cluster, const SearchResult& result) {
  Json j = head(inputs, cluster);
  j["best"] = nullptr;
  j["candidates"] = Json::array();
  j["rejected"] = rejected(result);
  j["search"] = search_json(result);
  if (result.nearest_miss) {
    Json miss = decision(result.nearest_miss->candidate);
    miss["memory_parts_bytes"] = memory_json(result.nearest_miss->memory);
    miss["lacking_bytes"] = (result.nearest_miss->memory.total() - cluster.gpu.memory).value();
    j["nearest_miss"] = std::move(miss);
  }
  return dump(j);
}

std::string simulate_json(const Plan& plan, const Inputs& inputs, const Cluster& cluster, const Prediction& p,
                          double wall_s) {
  Json j = head(inputs, cluster);
  j["plan"] = decision(plan.candidate);
  j["makespan_s"] = p.makespan.seconds().value();
  j["planned_makespan_s"] = plan.makespan.seconds().value();
  j["lower_bound_s"] = p.estimate.lower_bound.value();
  j["lower_bound_by"] = p.estimate.bound_by;
  j["exposed_communication_s"] = p.slowest.exposed_communication.value();
  j["memory_bytes"] = p.memory.total().value();
  j["classes"] = class_times(p.slowest);
  j["streams"] = Json::array();
  for (const StreamUse& s : stream_use(p.program, p.timeline)) {
    j["streams"].push_back({{"stream", name_of<Stream>(kStreamNames, s.stream)},
                            {"busy_min_s", s.busy.min},
                            {"busy_mean_s", s.busy.mean},
                            {"busy_max_s", s.busy.max},
                            {"utilisation_mean", s.utilisation.mean}});
  }
  j["links"] = Json::array();
  for (const LinkUtilisation& l : link_utilisation(p.timeline, cluster.topology)) {
    j["links"].push_back({{"link", l.name}, {"bytes", l.bytes.value()}, {"utilisation", l.utilisation}});
  }
  j["timing"] = {{"wall_s", wall_s}};
  return dump(j);
}

}  // namespace moeplan
