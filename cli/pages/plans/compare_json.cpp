#include <nlohmann/json.hpp>

#include "cli/pages/plans/comparison.hpp"
#include "planner/report/json_parts.hpp"

namespace moeplan::cli {

namespace {

planner::Json plan_part(const ComparedPlan& c) {
  const planner::Prediction& p = c.prediction;
  planner::Json j = planner::json_head(c.plan.inputs, c.plan.cluster);
  j.erase("schema_version");
  j["file"] = c.name;
  j["plan"] = planner::decision_json(c.plan.plan.candidate);
  j["makespan_s"] = p.makespan.seconds().value();
  j["lower_bound_s"] = p.estimate.lower_bound.value();
  planner::add_binding_rank(j, p);
  j["tokens_per_s_per_gpu"] = p.tokens_per_s_per_gpu;
  j["memory_bytes"] = p.memory.total().value();
  return j;
}

}  // namespace

std::string compare_json(const Comparison& c, double wall_s) {
  const planner::PlanDifference& d = c.difference;
  planner::Json j{{"schema_version", planner::kJsonSchemaVersion}};
  j["conclusion"] = conclusion(c);
  j["plans"] = {plan_part(c.a), plan_part(c.b)};
  const SimTime a = c.a.prediction.makespan, b = c.b.prediction.makespan;
  j["makespan_difference_s"] = (b - a).seconds().value();
  j["makespan_ratio"] = a > SimTime() ? planner::Json(b.seconds() / a.seconds()) : planner::Json(nullptr);
  j["classes"] = planner::Json::array();
  for (const planner::ClassDifference& k : d.classes) {
    j["classes"].push_back({{"class", name_of<OpClass>(kOpClassNames, k.op_class)},
                            {"not_hidden_s", {k.visible.first.value(), k.visible.second.value()}},
                            {"not_hidden_difference_s", (k.visible.second - k.visible.first).value()},
                            {"exposed_s", {k.exposed.first.value(), k.exposed.second.value()}},
                            {"exposed_difference_s", (k.exposed.second - k.exposed.first).value()}});
  }
  j["idle_s"] = {d.idle.first.value(), d.idle.second.value()};
  j["memory_parts_bytes"] = planner::Json::object();
  for (const auto& [name, bytes] : d.memory) {
    j["memory_parts_bytes"][name] = {bytes.first.value(), bytes.second.value()};
  }
  j["decisions"] = planner::Json::object();
  for (const auto& [name, value] : d.decisions) j["decisions"][name] = {value.first, value.second};
  j["inputs"] = d.inputs;
  j["timing"] = {{"wall_s", wall_s}};
  return planner::json_text(j);
}

}  // namespace moeplan::cli
