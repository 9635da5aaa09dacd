#include <nlohmann/json.hpp>

#include "cli/pages/size_report.hpp"
#include "planner/report/json_parts.hpp"

namespace moeplan::cli {

namespace {

using planner::TriedSize;

planner::Json number_or_null(const std::optional<double>& value) {
  return value ? planner::Json(*value) : planner::Json(nullptr);
}

planner::Json size_json_of(const SizeReport& r, const SizedCluster& c, const TriedSize& t) {
  planner::Json out{{"gpus", t.gpus}, {"nodes", c.nodes(t.gpus)}};
  if (!t.best) {
    out["plan"] = nullptr;
    out["no_plan"] = t.no_plan;
    return out;
  }
  const SizeFigures f = size_figures(r.target, c.price, t);
  out["plan"] = planner::decision_json(t.best->candidate);
  out["makespan_s"] = t.best->makespan->seconds().value();
  out["memory_bytes"] = t.best->memory.total().value();
  out["tokens_per_s_per_gpu"] = t.tokens_per_s / static_cast<double>(t.gpus);
  out["model_flops_utilization"] = t.model_flops_utilization;
  out["tokens_per_day"] = f.tokens_per_day;
  if (f.days) out["days"] = *f.days;
  if (f.cost_per_million_tokens) out["cost_per_million_tokens"] = *f.cost_per_million_tokens;
  if (f.cost) out["cost"] = *f.cost;
  return out;
}

planner::Json sizing_json(const SizeReport& r, const SizedCluster& c, const planner::Sizing& sizing) {
  planner::Json sizes = planner::Json::array();
  for (const TriedSize& t : sizing.tried) sizes.push_back(size_json_of(r, c, t));
  return {{"gpus", sizing.gpus ? planner::Json(*sizing.gpus) : planner::Json(nullptr)},
          {"untried", sizing.untried},
          {"excluded", sizing.excluded},
          {"sizes", std::move(sizes)}};
}

planner::Json clusters_json(const SizeReport& r) {
  planner::Json out = planner::Json::array();
  for (const SizedCluster& c : r.clusters) {
    planner::Json j{{"cluster", c.inputs.cluster.name},
                    {"gpu", c.inputs.cluster.gpu.name},
                    {"gpus_per_node", c.gpus_per_node},
                    {"price_per_gpu_hour", number_or_null(c.price)},
                    {"confidence", planner::confidence_json(c.inputs)}};
    j.update(sizing_json(r, c, c.sizing));
    out.push_back(std::move(j));
  }
  return out;
}

planner::Json nics_json(const SizeReport& r) {
  planner::Json out = planner::Json::array();
  for (const NicSizing& n : r.nics) {
    planner::Json j{{"nic_bandwidth_bytes_per_s", n.rate.value()}, {"is_own", n.is_own}};
    j.update(sizing_json(r, r.answer(), n.sizing));
    out.push_back(std::move(j));
  }
  return out;
}

}  // namespace

std::string size_json(const SizeReport& r) {
  planner::Json j{{"schema_version", planner::kJsonSchemaVersion},
                  {"model", r.clusters.front().inputs.model.name},
                  {"workload", planner::workload_json(r.clusters.front().inputs.workload)}};
  if (r.framework) j["framework"] = {{"name", r.framework->name}, {"version", r.framework->version}};
  j["target"] = {{"tokens_per_day", number_or_null(r.target.tokens_per_day)},
                 {"tokens", number_or_null(r.target.tokens)},
                 {"gpus", r.target.gpus ? planner::Json(*r.target.gpus) : planner::Json(nullptr)},
                 {"availability", r.target.availability}};
  j["best"] = nullptr;
  if (r.best) {
    const SizedCluster& c = r.answer();
    j["best"] = {{"cluster", c.inputs.cluster.name}};
    j["best"].update(size_json_of(r, c, *c.sizing.answer()));
    if (const NicSizing* enough = enough_nics(r)) j["best"]["enough_nic_bandwidth_bytes_per_s"] = enough->rate.value();
  }
  j["clusters"] = clusters_json(r);
  if (!r.nics.empty()) j["nics"] = nics_json(r);
  j["timing"] = {{"wall_s", r.wall_s}};
  return planner::json_text(j);
}

}  // namespace moeplan::cli
