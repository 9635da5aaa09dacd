#include <fmt/format.h>

#include <algorithm>

#include "planner/layer/schedule.hpp"
#include "planner/placement/placement_document.hpp"
#include "planner/placement/strategies/strategy.hpp"
#include "planner/plan/plan.hpp"
#include "planner/plan/tutel_document.hpp"

namespace moeplan::planner {

namespace {

constexpr const char* kEnd = "of plan";

Node strings(const std::vector<std::string>& texts) {
  Node list = Node::list();
  for (const std::string& t : texts) list.items.push_back(Node::text(t));
  return list;
}

Node run_document(const LayerStrategy& run) {
  Node n = Node::map();
  n.set("schedule", Node::text(run.schedule.name()));
  n.set("all_to_all", Node::text(run.all_to_all.name()));
  n.set("pipeline_degree", Node::integer(run.pipeline_degree));
  n.set("codec", Node::text(codec_pair_name(run.codec)));
  return n;
}

}  // namespace

Node decision_document(const Candidate& c) {
  Node d = Node::map();
  d.set("tp", Node::integer(c.degrees.tp));
  d.set("cp", Node::integer(c.degrees.cp));
  d.set("ep", Node::integer(c.degrees.ep));
  d.set("esp", Node::integer(c.degrees.esp));
  d.set("dp", Node::integer(c.degrees.dp));
  d.set("edp", Node::integer(c.degrees.edp));
  d.set("pp", Node::integer(c.degrees.pp));
  d.set("virtual_stages", Node::integer(c.virtual_stages));
  d.set("pipeline", Node::text(name_of(c.pipeline)));
  if (!c.layout.empty()) d.set("layout", Node::text(c.layout.text()));
  d.set("sequence_parallel", Node::boolean(c.sequence_parallel));
  d.set("ep_overlap", Node::boolean(c.ep_overlap));
  d.set("delay_wgrad", Node::boolean(c.delays_weight_gradients));
  d.set("micro_batch", Node::integer(c.micro_batch));
  d.set("rank_order", Node::text(name_of(c.rank_order)));
  d.set("recompute", Node::text(name_of(c.recompute)));
  d.set("schedule", Node::text(c.schedule.name()));
  d.set("all_to_all", Node::text(c.all_to_all.name()));
  if (c.dispatcher_sms > 0) d.set("dispatcher_sms", Node::integer(c.dispatcher_sms));
  d.set("pipeline_degree", Node::integer(c.pipeline_degree));
  d.set("codec", Node::text(codec_pair_name(c.codec)));
  if (!c.runs.empty()) {
    Node& runs = d.set("runs", Node::list());
    for (const LayerStrategy& run : c.runs) runs.items.push_back(run_document(run));
  }
  d.set("placement", Node::text(c.placement.name()));
  d.set("redundant_experts", Node::integer(c.redundant_experts));
  if (!c.expert_places.empty()) {
    Node& places = d.set("expert_places", Node::list());
    for (const Placement& placement : c.expert_places) places.items.push_back(placement_document(placement));
  }
  d.set("order", Node::text(name_of(c.order)));
  return d;
}

namespace {

Node groups_document(const Candidate& c) {
  Program program;
  (void)add_groups(program, c.degrees, c.rank_order);
  Node groups = Node::list();
  for (const GroupFamily& g : program.groups) {
    Node n = Node::map();
    n.set("name", Node::text(g.name));
    n.set("size", Node::integer(g.size));
    n.set("stride", Node::integer(g.stride));
    groups.items.push_back(std::move(n));
  }
  return groups;
}

std::string only(MapReader& reader, std::string_view key, std::string_view one) {
  const std::string value = reader.text(key);
  if (value != one && reader.has(key))
    reader.complain(key, fmt::format("{} is not known; expected {}", in_quotes(value), one));
  return value;
}

/// Reads the name of a built-in into `value`.
template <class Entry>
void read_built_in(MapReader& reader, std::string_view key, const Entry* (*find)(std::string_view),
                   const std::vector<std::string>& names, BuiltIn<Entry>& value) {
  const std::string name = reader.text(key);
  if (const Entry* entry = find(name))
    value = *entry;
  else if (reader.has(key))
    reader.complain(key, fmt::format("{} is not known{}", in_quotes(name), suggestion(name, names)));
}

CodecPair read_codec_pair(MapReader& reader) {
  const std::string value = reader.text("codec");
  if (const auto pair = parse_codec_pair(value)) return *pair;
  if (reader.has("codec")) reader.complain("codec", codec_pair_error(value));
  return {};
}

LayerStrategy read_run(MapReader& reader) {
  std::vector<std::string> names;
  for (const auto& s : schedules()) names.emplace_back(s->name());
  LayerStrategy run;
  read_built_in(reader, "schedule", find_schedule, names, run.schedule);
  read_built_in(reader, "all_to_all", find_all_to_all, all_to_all_names(), run.all_to_all);
  run.pipeline_degree = reader.integer("pipeline_degree", 1, kMostChunks);
  run.codec = read_codec_pair(reader);
  return run;
}

}  // namespace

Candidate read_decision(MapReader d) {
  constexpr std::int64_t kMostRanks = 1'048'576;
  Candidate c;
  c.degrees.tp = d.integer("tp", 1, kMostRanks);
  c.degrees.cp = d.integer("cp", 1, kMostRanks);
  c.degrees.ep = d.integer("ep", 1, kMostRanks);
  c.degrees.esp = d.integer(d.either("esp", "etp"), 1, kMostRanks);
  c.degrees.dp = d.integer("dp", 1, kMostRanks);
  c.degrees.edp = d.integer("edp", 1, kMostRanks);
  c.degrees.pp = d.integer("pp", 1, kMostRanks);
  c.virtual_stages = d.integer("virtual_stages", 1, kMostRanks);
  if (d.has("pipeline")) c.pipeline = d.choice<PipelineShape>("pipeline", kPipelineShapeNames);
  if (const std::string layout = d.text_or("layout", ""); !layout.empty()) {
    const auto parsed = parse_layout(layout);
    if (const auto* error = std::get_if<std::string>(&parsed)) d.complain("layout", *error);
    if (const auto* parts = std::get_if<PipelineLayout>(&parsed)) c.layout = *parts;
  }
  c.sequence_parallel = d.boolean("sequence_parallel");
  if (d.has("ep_overlap")) c.ep_overlap = d.boolean("ep_overlap");
  if (d.has("delay_wgrad")) c.delays_weight_gradients = d.boolean("delay_wgrad");
  c.micro_batch = d.integer("micro_batch", 1);
  c.rank_order = d.choice<RankOrder>("rank_order", kRankOrderNames);
  c.recompute = read_recompute(d);
  c = read_run(d).in(c);
  c.dispatcher_sms = d.integer_or("dispatcher_sms", 0, 1, kMostDispatcherSms);
  for (const auto& [node, path] : d.list_or_empty("runs")) {
    MapReader run(*node, path, d.diagnostics());
    c.runs.push_back(read_run(run));
    run.finish();
  }
  const std::string placement = d.text("placement");
  if (find_placement_strategy(placement)) {
    c.placement = placement;
  } else if (d.has("placement")) {
    d.complain("placement",
               fmt::format("{} is not known{}", in_quotes(placement), suggestion(placement, placement_names())));
  }
  c.redundant_experts = d.integer_or("redundant_experts", 0, 0, kMostRedundantExperts);
  for (const auto& [node, path] : d.list_or_empty("expert_places"))
    c.expert_places.push_back(read_placement(MapReader(*node, path, d.diagnostics()), c.degrees.ep));
  if (c.placement == kContiguous && !c.expert_places.empty())
    d.complain("expert_places", "has no effect on contiguous experts; expected another placement");
  c.order = d.choice<OperationOrder>("order", kOperationOrderNames);
  d.finish();
  return c;
}

void write_plan(const Plan& plan, const std::filesystem::path& path) {
  Node doc = Node::map();
  doc.set("schema_version", Node::integer(kPlanSchemaVersion));
  doc.set("world_size", Node::integer(plan.world_size));
  doc.set("decision", decision_document(plan.candidate));
  doc.set("groups", groups_document(plan.candidate));
  Node& prediction = doc.set("prediction", Node::map());
  prediction.set("makespan_ps", Node::integer(plan.makespan.picoseconds()));
  prediction.set("makespan_s", Node::number(plan.makespan.seconds().value()));
  prediction.set("closed_form_s", Node::number(plan.estimate.closed_form.value()));
  prediction.set("schedule_bound_s", Node::number(plan.estimate.lower_bound.value()));
  prediction.set("schedule_bound_by", Node::text(plan.estimate.bound_by));
  prediction.set("lower_bound_s", Node::number(plan.global_bound.value()));
  if (!plan.tutel.empty()) doc.set("tutel_dictionaries", tutel_document(plan.tutel));
  Node& sources = doc.set("sources", Node::map());
  sources.set("cluster", Node::text(plan.inputs.cluster_source));
  sources.set("model", Node::text(plan.inputs.model_source));
  sources.set("workload", Node::text(plan.inputs.workload_source));
  sources.set("overrides", strings(plan.inputs.overrides));
  doc.set("cluster", plan.inputs.cluster);
  doc.set("model", plan.inputs.model);
  doc.set("workload", plan.inputs.workload);
  doc.set("end", Node::text(kEnd));  // detects truncated files
  write_file_atomically(path, to_yaml(doc));
}

namespace {

/// If the workload also fixes the recomputation, the decision must equal it; a difference means that one of them was
/// edited.
void check_recompute(const Node& document, const Plan& plan, Diagnostics& diagnostics) {
  const Node* decided = document.find("decision") ? document.find("decision")->find("recompute") : nullptr;
  const std::string decision = name_of(plan.candidate.recompute);
  if (!decided || decided->scalar != decision) return;  // missing or unknown: already reported
  const Node* mode = plan.inputs.workload.find("mode");
  const Node* said = plan.inputs.workload.find("recompute");
  const bool is_forward = mode && mode->scalar == name_of<Mode>(kModeNames, Mode::Forward);
  if (is_forward && plan.candidate.recompute != Recompute::None) {
    diagnostics.add(decided->where, "decision.recompute",
                    fmt::format("{} has no effect on a forward workload; expected none", in_quotes(decision)));
  } else if (!is_forward && said && said->scalar != "auto" &&
             parse_recompute(said->scalar) != plan.candidate.recompute) {
    diagnostics.add(decided->where, "decision.recompute",
                    fmt::format("{} contradicts this plan's workload.recompute, {}; change that too, or set it to auto",
                                in_quotes(decision), in_quotes(said->scalar)));
  }
}

}  // namespace

Plan read_plan(const std::filesystem::path& path) {
  const Node doc = load_document(path);
  Diagnostics diagnostics;
  MapReader r(doc, "", diagnostics);
  (void)r.integer("schema_version", kPlanSchemaVersion, kPlanSchemaVersion);
  Plan plan;
  plan.world_size = r.integer("world_size", 1, 1'048'576);
  plan.candidate = read_decision(r.map("decision"));
  if (plan.candidate.placement != kContiguous && plan.candidate.expert_places.empty())
    r.complain("decision", "names a placement and no expert_places");
  (void)r.list("groups");  // derived from the decision; present for human readers only
  MapReader prediction = r.map("prediction");
  plan.makespan = SimTime(prediction.integer("makespan_ps", 0, std::numeric_limits<std::int64_t>::max() / 2));
  (void)prediction.number("makespan_s", 0, 1e9);
  plan.estimate.closed_form = Seconds(prediction.number("closed_form_s", 0, 1e9));
  plan.estimate.lower_bound = Seconds(prediction.number("schedule_bound_s", 0, 1e9));
  plan.estimate.bound_by = prediction.text("schedule_bound_by");
  plan.global_bound = Seconds(prediction.number("lower_bound_s", 0, 1e9));
  prediction.finish();
  plan.tutel = read_tutel(r, "tutel_dictionaries");
  MapReader sources = r.map("sources");
  plan.inputs.cluster_source = sources.text("cluster");
  plan.inputs.model_source = sources.text("model");
  plan.inputs.workload_source = sources.text("workload");
  for (const auto& [node, key] : sources.list_or_empty("overrides")) {
    if (node->kind != Node::Kind::Scalar)
      diagnostics.add(node->where, key, "expected a text such as cluster.gpu.memory=40 GB");
    plan.inputs.overrides.push_back(node->scalar);
  }
  sources.finish();
  const auto embedded = [&](std::string_view key) {
    const MapReader inner = r.map(key);
    return inner.node();
  };
  plan.inputs.cluster = embedded("cluster");
  plan.inputs.model = embedded("model");
  plan.inputs.workload = embedded("workload");
  check_recompute(doc, plan, diagnostics);
  (void)only(r, "end", kEnd);
  r.finish();
  const Degrees& d = plan.candidate.degrees;
  if (diagnostics.empty() && (d.world() != plan.world_size || d.pp * d.edp * d.ep * d.esp != plan.world_size)) {
    r.complain(
        "decision",
        fmt::format("the degrees do not make {} ranks: pp {} x dp {} x cp {} x tp {}, pp {} x edp {} x ep {} x esp {}",
                    plan.world_size, d.pp, d.dp, d.cp, d.tp, d.pp, d.edp, d.ep, d.esp));
  }
  diagnostics.throw_if_any();
  return plan;
}

}  // namespace moeplan::planner
