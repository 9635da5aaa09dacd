#include "planner/report/json_parts.hpp"

#include <nlohmann/json.hpp>

#include "model/analysis/analysis.hpp"
#include "planner/report/accuracy.hpp"

namespace moeplan::planner {

Json workload_json(const Workload& w) {
  return {{"name", w.name},
          {"global_batch", w.global_batch},
          {"sequence_length", w.sequence_length},
          {"mode", name_of<Mode>(kModeNames, w.mode)},
          {"dtype", name_of<Dtype>(kDtypeNames, w.dtype)},
          {"precision", precision_text(w)},
          {"recompute", recompute_text(w)},
          {"zero_stage", w.zero_stage},
          {"capacity_factor", w.capacity_factor ? Json(*w.capacity_factor) : Json(nullptr)},
          {"routing", w.recorded ? "recorded" : name_of<RoutingShape>(kRoutingShapeNames, w.routing.shape)},
          {"seed", w.routing.seed},
          {"gate", name_of<GateKind>(kGateKindNames, w.gate.kind)}};
}

Json json_head(const Inputs& inputs, const Cluster& cluster) {
  return {{"schema_version", kJsonSchemaVersion},
          {"cluster", cluster.name},
          {"gpu", cluster.gpu.name},
          {"model", inputs.model.name},
          {"workload", workload_json(inputs.workload)},
          {"world_size", cluster.world_size()}};
}

Json confidence_json(const Inputs& inputs) {
  const std::optional<Accuracy> known = shipped_accuracy_of(inputs.cluster.gpu, inputs.workload);
  if (!known) return nullptr;
  return {{"gpu", known->gpu},
          {"precision", known->precision.empty() ? Json(nullptr) : Json(known->precision)},
          {"pytorch_modules", known->is_of_pytorch},
          {"runs", known->runs},
          {"most_gpus", known->most_gpus},
          {"median_error", known->median},
          {"p90_error", known->p90},
          {"bias", known->bias}};
}

Json decision_json(const Candidate& c) {
  const Degrees& d = c.degrees;
  Json out{{"schedule", c.schedule.name()},
           {"all_to_all", c.all_to_all.name()},
           {"pipeline_degree", c.pipeline_degree},
           {"codec", codec_pair_name(c.codec)},
           {"placement", c.placement.name()},
           {"redundant_experts", c.redundant_experts},
           {"order", name_of(c.order)},
           {"tp", d.tp},
           {"cp", d.cp},
           {"ep", d.ep},
           {"esp", d.esp},
           {"etp", d.esp},
           {"dp", d.dp},
           {"edp", d.edp},
           {"pp", d.pp},
           {"virtual_stages", c.virtual_stages},
           {"pipeline", name_of(c.pipeline)},
           {"sequence_parallel", c.sequence_parallel},
           {"ep_overlap", c.ep_overlap},
           {"delay_wgrad", c.delays_weight_gradients},
           {"micro_batch", c.micro_batch},
           {"rank_order", name_of(c.rank_order)},
           {"recompute", name_of(c.recompute)}};
  if (c.dispatcher_sms > 0) out["dispatcher_sms"] = c.dispatcher_sms;
  if (!c.layout.empty()) out["layout"] = c.layout.text();
  for (const LayerStrategy& r : c.runs) {
    out["runs"].push_back({{"schedule", r.schedule.name()},
                           {"all_to_all", r.all_to_all.name()},
                           {"pipeline_degree", r.pipeline_degree},
                           {"codec", codec_pair_name(r.codec)}});
  }
  return out;
}

Json memory_json(const MemoryUse& m) {
  Json out{{"total", m.total().value()},           {"weights", m.weights.value()},
           {"gradients", m.gradients.value()},     {"optimizer", m.optimizer.value()},
           {"activations", m.activations.value()}, {"working", m.working.value()},
           {"runtime", m.runtime.value()}};
  if (m.host > Bytes(0)) out["host"] = m.host.value();
  return out;
}

Json class_times_json(const RankTime& t) {
  Json out = Json::object();
  for (const ClassTime& c : t.classes) {
    out[std::string(name_of<OpClass>(kOpClassNames, c.op_class))] = {{"total_s", c.total.value()},
                                                                     {"not_hidden_s", c.visible.value()}};
  }
  return out;
}

void add_binding_rank(Json& j, const Prediction& p) {
  j["binding_rank"] = p.binding.rank.value();
  j["binding_stage"] = p.program.stage_of(p.binding.rank);
  j["waiting_s"] = p.binding.waiting.value();
  j["exposed_communication_s"] = p.binding.exposed_communication.value();
}

Json streams_json(const Prediction& p) {
  Json out = Json::array();
  for (const StreamUse& s : stream_use(p.program, p.timeline)) {
    out.push_back({{"stream", name_of<Stream>(kStreamNames, s.stream)},
                   {"busy_min_s", s.busy.min},
                   {"busy_mean_s", s.busy.mean},
                   {"busy_max_s", s.busy.max},
                   {"utilisation_mean", s.utilisation.mean}});
  }
  return out;
}

Json links_json(const Prediction& p, const Topology& topology) {
  Json out = Json::array();
  for (const LinkUtilisation& l : link_utilisation(p.timeline, topology)) {
    out.push_back({{"link", l.name}, {"bytes", l.bytes.value()}, {"utilisation", l.utilisation}});
  }
  return out;
}

std::string json_text(const Json& document) { return document.dump(2) + '\n'; }

}  // namespace moeplan::planner
