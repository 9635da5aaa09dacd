#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/pages/page_parts.hpp"
#include "cli/pages/plans/explanation.hpp"
#include "cli/pages/plans/operation_table.hpp"
#include "model/costs/compute.hpp"
#include "model/text/origins.hpp"
#include "planner/report/json_parts.hpp"

namespace moeplan::cli {

namespace {

double share(SimTime part, SimTime whole) { return whole > SimTime() ? part.seconds() / whole.seconds() : 0; }

std::string_view class_name(OpClass op_class) { return name_of<OpClass>(kOpClassNames, op_class); }

planner::Json path_rows(const Explanation& e) {
  planner::Json out = planner::Json::array();
  for (const PathRow& row : e.path.rows) {
    const Block& block = e.prediction.program.blocks[row.block.index()];
    const Operation& op = e.prediction.program.operation(row.block, row.operation);
    out.push_back({{"block", block.name},
                   {"operation", op.name},
                   {"class", class_name(op.op_class)},
                   {"limited_by", row.limited_by},
                   {"time_s", row.time.seconds().value()},
                   {"share", share(row.time, e.path.time)}});
  }
  return out;
}

planner::Json path_classes(const Explanation& e) {
  planner::Json out = planner::Json::array();
  for (const PathClass& c : e.path.classes) {
    out.push_back(
        {{"class", class_name(c.op_class)},
         {"time_s", c.time.seconds().value()},
         {"share", share(c.time, e.path.time)},
         {"share_of_peak", c.possible_flops > 0 ? planner::Json(c.flops / c.possible_flops) : planner::Json(nullptr)}});
  }
  return out;
}

planner::Json bottlenecks(const Explanation& e) {
  planner::Json out = planner::Json::array();
  for (const auto& [name, time] : e.path.bottlenecks) {
    out.push_back({{"limited_by", name}, {"time_s", time.seconds().value()}, {"share", share(time, e.path.time)}});
  }
  return out;
}

planner::Json sensitivities_json(const Explanation& e) {
  planner::Json out = planner::Json::array();
  for (const planner::Sensitivity& s : e.sensitivities) {
    out.push_back({{"what", s.resource.key},
                   {"change", s.resource.change},
                   {"makespan_s", s.makespan.seconds().value()},
                   {"gain", s.gain}});
  }
  return out;
}

planner::Json exposed_json(const RankTime& t) {
  planner::Json out = planner::Json::object();
  for (const ClassTime& c : t.classes) {
    if (c.exposed > Seconds(0)) out[std::string(class_name(c.op_class))] = c.exposed.value();
  }
  return out;
}

planner::Json roofline_json(const Explanation& e, const DdlRoofline& r) {
  return {{"computation_s", r.computation.value()},
          {"communication_s", r.communication.value()},
          {"r_cc", std::isfinite(r.ratio) ? planner::Json(r.ratio) : planner::Json(nullptr)},
          {"computing_flops_per_s", r.computing.value()},
          {"average_flops_per_s", r.average.value()},
          {"ideal_flops_per_s", r.ideal.value()},
          {"semi_ideal_flops_per_s", r.semi_ideal.value()},
          {"peak_flops_per_s", peak_rate(e.plan.cluster.gpu, e.plan.inputs.workload.dtype).value()}};
}

planner::Json layer_points_json(const Explanation& e) {
  planner::Json out = planner::Json::array();
  for (const planner::LayerPoint& p : e.layer_points) {
    const Degrees& d = p.candidate.degrees;
    out.push_back({{"name", p.name},
                   {"schedule", p.candidate.schedule.name()},
                   {"pipeline_degree", p.candidate.pipeline_degree},
                   {"tp", d.tp},
                   {"ep", d.ep},
                   {"esp", d.esp},
                   {"etp", d.esp},
                   {"edp", d.edp},
                   {"makespan_s", p.makespan.seconds().value()},
                   {"roofline", roofline_json(e, p.roofline)}});
  }
  return out;
}

planner::Json forms_json(const planner::PlacementForms& f) {
  return {{"fastermoe_s", f.fastermoe.value()},
          {"fastermoe_eq9", f.sends_less},
          {"fastermoe_eq10", f.saves_more},
          {"pro_prophet_s", f.pro_prophet.value()},
          {"pro_prophet_scheduled_s", f.pro_prophet_scheduled.value()},
          {"balance_degree", f.balance_degree}};
}

planner::Json placement_json(const planner::PlacementPayoff& w) {
  const auto seconds = [](SimTime t) { return t.seconds().value(); };
  planner::Json curve = planner::Json::array();
  for (const planner::RedundantExperts& r : w.curve) {
    curve.push_back({{"redundant_experts", r.redundant},
                     {"memory_bytes", r.memory.value()},
                     {"makespan_s", r.makespan ? planner::Json(seconds(*r.makespan)) : planner::Json(nullptr)}});
  }
  return {{"strategy", w.strategy},
          {"redundant_experts", w.redundant_experts},
          {"imbalance_before", w.imbalance_before},
          {"imbalance", w.imbalance},
          {"closed_forms", {{"contiguous", forms_json(w.forms_before)}, {"placed", forms_json(w.forms)}}},
          {"contiguous_s", seconds(w.contiguous)},
          {"placed_s", seconds(w.placed)},
          {"gain_s", w.gain().value()},
          {"weights_s", w.weights.value()},
          {"gradients_s", w.gradients.value()},
          {"migration_s", w.migration.value()},
          {"memory_bytes", w.memory.value()},
          {"break_even_iterations", w.break_even ? planner::Json(*w.break_even) : planner::Json(nullptr)},
          {"lasts_iterations", w.lasts ? planner::Json(*w.lasts) : planner::Json(nullptr)},
          {"outlasts_trace", w.outlasts_trace},
          {"breaks_even", w.breaks_even()},
          {"best_redundancy", w.best_redundancy() ? planner::Json(*w.best_redundancy()) : planner::Json(nullptr)},
          {"curve", std::move(curve)}};
}

planner::Json parm_json(const planner::ParmForms& p) {
  planner::Json out{
      {"blm_bytes", p.input.value()},       {"x_bytes", p.dispatched.value()}, {"y_bytes", p.exchanged.value()},
      {"t_base_s", p.baseline.value()},     {"t_s1_s", p.s1.value()},          {"t_s2_s", p.s2.value()},
      {"t_s2_in_turn_s", p.in_turn.value()}};
  if (!p.choice) return out;
  out["t_d1_s"] = p.choice->t_d1.value();
  out["t_d2_s"] = p.choice->t_d2.value();
  out["algorithm_1"] = p.choice->schedule == ParmChoice::S1 ? "parm_s1" : "parm_s2";
  return out;
}

planner::Json paper_forms_json(const planner::PaperForms& f) {
  planner::Json out = planner::Json::object();
  if (f.parm) out["parm"] = parm_json(*f.parm);
  if (f.overlap) {
    out["t_1_s"] = f.overlap->in_turn.value();
    out["t_r_s"] = f.overlap->time.value();
    out["t_hidden_s"] = f.overlap->hidden.value();
    out["most_by_overlap"] = f.overlap->bound;
  }
  if (f.pipe) {
    out["t_intra_s"] = f.pipe->inside.value();
    out["t_inter_s"] = f.pipe->between.value();
    out["s_max"] = f.pipe->most();
  }
  return out;
}

planner::Json buffers_json(const Explanation& e) {
  planner::Json out = planner::Json::array();
  for (const BufferUse& b : e.buffers)
    out.push_back({{"buffer", b.buffer}, {"block", b.block}, {"bytes", b.bytes.value()}, {"count", b.count}});
  return out;
}

planner::Json explain_document(const Explanation& e) {
  const planner::Prediction& p = e.prediction;
  planner::Json j = planner::json_head(e.plan.inputs, e.plan.cluster);
  j["plan"] = planner::decision_json(e.plan.plan.candidate);
  j["conclusion"] = conclusion(e);
  j["makespan_s"] = p.makespan.seconds().value();
  j["lower_bound_s"] = p.estimate.lower_bound.value();
  j["lower_bound_by"] = p.estimate.bound_by;
  j["confidence"] = planner::confidence_json(e.plan.inputs);
  if (auto warnings = pricing_warnings(e.plan.cluster, p.program); !warnings.empty())
    j["pricing_warnings"] = std::move(warnings);
  j["tokens_per_s_per_gpu"] = p.tokens_per_s_per_gpu;
  j["model_flops_utilization"] = p.model_flops_utilization;
  j["critical_path"] = path_rows(e);
  j["critical_path_classes"] = path_classes(e);
  j["critical_path_bottlenecks"] = bottlenecks(e);
  j["critical_path_ranks"] = planner::Json::array();
  for (const RankId r : e.path.ranks) j["critical_path_ranks"].push_back(r.value());
  j["critical_path_handovers"] = e.path.handovers;
  j["critical_path_waited_s"] = e.path.waited.seconds().value();
  planner::add_binding_rank(j, p);
  j["exposed_by_class"] = exposed_json(p.binding);
  j["classes"] = planner::class_times_json(p.binding);
  j["links"] = planner::links_json(p, e.plan.cluster.topology);
  j["streams"] = planner::streams_json(p);
  j["sensitivities"] = sensitivities_json(e);
  j["roofline"] = roofline_json(e, e.roofline);
  j["layer_roofline"] = layer_points_json(e);
  j["closed_forms"] = paper_forms_json(e.forms);
  j["placement"] = e.placement ? placement_json(*e.placement) : planner::Json(nullptr);
  j["memory_parts_bytes"] = planner::memory_json(p.memory);
  j["buffers"] = buffers_json(e);
  j["operations"] = operation_rows(e.prediction.program, e.operations);
  j["assumed"] = assumed_numbers(e.plan.plan.inputs.cluster);
  return j;
}

}  // namespace

std::string explain_json(const Explanation& e, double wall_s) {
  planner::Json j = explain_document(e);
  j["timing"] = {{"wall_s", wall_s}};
  return planner::json_text(j);
}

std::string explain_data(const Explanation& e) {
  planner::Json j = explain_document(e);
  if (planner::Json& links = j.at("links"); links.size() > kReportedLinks)
    links.erase(links.begin() + static_cast<std::ptrdiff_t>(kReportedLinks), links.end());
  return j.dump() + '\n';
}

}  // namespace moeplan::cli
