#include "planner/report/plan_difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace moeplan::planner {

namespace {

std::vector<std::pair<std::string, std::string>> decisions(const Plan& plan) {
  const Candidate& c = plan.candidate;
  const Degrees& d = c.degrees;
  const auto text = [](std::int64_t n) { return fmt::format("{}", n); };
  return {{"world_size", text(plan.world_size)},
          {"schedule", c.schedule.name()},
          {"all_to_all", c.all_to_all.name()},
          {"pipeline_degree", text(c.pipeline_degree)},
          {"codec", codec_pair_name(c.codec)},
          {"runs", strategies_text(c.runs)},
          {"placement", c.placement.name()},
          {"redundant_experts", text(c.redundant_experts)},
          {"order", name_of(c.order)},
          {"tp", text(d.tp)},
          {"cp", text(d.cp)},
          {"dp", text(d.dp)},
          {"ep", text(d.ep)},
          {"esp", text(d.esp)},
          {"edp", text(d.edp)},
          {"pp", text(d.pp)},
          {"virtual_stages", text(c.virtual_stages)},
          {"pipeline", name_of(c.pipeline)},
          {"layout", c.layout.text()},
          {"sequence_parallel", c.sequence_parallel ? "true" : "false"},
          {"dispatcher_sms", text(c.dispatcher_sms)},
          {"ep_overlap", c.ep_overlap ? "true" : "false"},
          {"delay_wgrad", c.delays_weight_gradients ? "true" : "false"},
          {"micro_batch", text(c.micro_batch)},
          {"rank_order", name_of(c.rank_order)},
          {"recompute", name_of(c.recompute)}};
}

const ClassTime* find(const RankTime& t, OpClass op_class) {
  const auto it =
      std::find_if(t.classes.begin(), t.classes.end(), [&](const ClassTime& c) { return c.op_class == op_class; });
  return it == t.classes.end() ? nullptr : &*it;
}

}  // namespace

void add_differences(const Node& a, const Node& b, const std::string& path, std::size_t most,
                     std::vector<std::string>& out) {
  if (a.same_content(b) || out.size() >= most) return;
  if (a.kind != Node::Kind::Map || b.kind != Node::Kind::Map) {
    out.push_back(path);
    return;
  }
  for (const Entry& e : a.entries) {
    if (e.key == "origins") continue;
    const Node* other = b.find(e.key);
    const std::string key = path + "." + e.key;
    if (other) {
      add_differences(e.value, *other, key, most, out);
    } else if (out.size() < most) {
      out.push_back(key + " (gone)");
    }
  }
  for (const Entry& e : b.entries) {
    if (!a.find(e.key) && e.key != "origins" && out.size() < most) out.push_back(path + "." + e.key + " (new)");
  }
}

PlanDifference plan_difference(const Plan& a, const Prediction& of_a, const Plan& b, const Prediction& of_b,
                               std::size_t most) {
  PlanDifference out;
  for (const auto& [op_class, name] : kOpClassNames) {
    const ClassTime* x = find(of_a.binding, op_class);
    const ClassTime* y = find(of_b.binding, op_class);
    if (!x && !y) continue;
    const auto time = [](const ClassTime* t) { return t ? t->visible : Seconds(0); };
    const auto exposed = [](const ClassTime* t) { return t ? t->exposed : Seconds(0); };
    out.classes.push_back({op_class, {time(x), time(y)}, {exposed(x), exposed(y)}});
  }
  std::stable_sort(out.classes.begin(), out.classes.end(), [](const ClassDifference& x, const ClassDifference& y) {
    return std::abs((x.visible.second - x.visible.first).value()) >
           std::abs((y.visible.second - y.visible.first).value());
  });
  out.idle = {of_a.binding.idle, of_b.binding.idle};
  const MemoryUse &m = of_a.memory, &n = of_b.memory;
  out.memory = {{"weights", {m.weights, n.weights}},       {"gradients", {m.gradients, n.gradients}},
                {"optimizer", {m.optimizer, n.optimizer}}, {"activations", {m.activations, n.activations}},
                {"working", {m.working, n.working}},       {"runtime", {m.runtime, n.runtime}}};
  const auto first = decisions(a), second = decisions(b);
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i].second == second[i].second) continue;
    out.decisions.push_back({first[i].first, {first[i].second, second[i].second}});
  }
  add_differences(a.inputs.cluster, b.inputs.cluster, "cluster", most, out.inputs);
  add_differences(a.inputs.model, b.inputs.model, "model", most, out.inputs);
  add_differences(a.inputs.workload, b.inputs.workload, "workload", most, out.inputs);
  return out;
}

}  // namespace moeplan::planner
