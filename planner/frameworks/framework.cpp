#include "planner/frameworks/framework.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/costs/codec.hpp"
#include "model/text/reader.hpp"
#include "planner/candidate/candidate.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

namespace {

using Decision = FrameworkDecision;

std::vector<std::string> known_values(Decision decision) {
  std::vector<std::string> names;
  switch (decision) {
    case Decision::Schedules:
      for (const auto& s : schedules()) names.emplace_back(s->name());
      return names;
    case Decision::AllToAlls: return all_to_all_names();
    case Decision::Codecs:
      names.emplace_back("none");
      for (const CodecEntry& c : codecs()) names.emplace_back(c.name);
      return names;
    case Decision::RankOrders: return {name_of(RankOrder::Megatron), name_of(RankOrder::ReplicasInner)};
    case Decision::Orders: return {name_of(OperationOrder::Listed), name_of(OperationOrder::Searched)};
    case Decision::Placements: return placement_names();
    case Decision::Degrees: return {"tp", "sp", "cp", "pp", "vp", "ep", "esp"};
    case Decision::Pipelines: return {name_of(PipelineShape::V)};
    case Decision::Overlaps: return {"ep_overlap", "delay_wgrad"};
    case Decision::Recompute:
      names = all_names<RecomputeModule>(kRecomputeModuleNames);
      names.insert(names.end(), {std::string(kFirstLayers), std::string(kPerOperation)});
      break;
    case Decision::ZeroStages: return {"0", "1", "2", "3"};
    case Decision::Precisions: {
      names = all_names<Dtype>(kDtypeNames);
      for (const auto& [precision, name] : kPrecisionNames) names.emplace_back(name);
      return names;
    }
    case Decision::GraphModules: names = all_names<GraphModule>(kGraphModuleNames); break;
    case Decision::Fusions: return all_names<Fusion>(kFusionNames);
    case Decision::Layouts: return {"any"};
  }
  names.emplace_back(decision == Decision::Recompute ? "full" : "full_iteration");
  return names;
}

/// The versions of a file, and the position of the asked one.
class Versions {
 public:
  Versions(MapReader& reader, const std::string& asked) {
    for (const auto& [node, path] : reader.list("versions")) all_.push_back(node->scalar);
    if (all_.empty()) return;
    chosen_ = all_.size() - 1;
    if (asked.empty()) return;
    const auto it = std::find(all_.begin(), all_.end(), asked);
    chosen_ = static_cast<std::size_t>(it - all_.begin());
    if (it != all_.end()) return;
    chosen_ = all_.size() - 1;
    reader.complain("versions", fmt::format("{} is none of {}", in_quotes(asked), fmt::join(all_, ", ")));
  }
  [[nodiscard]] std::string chosen() const { return all_.empty() ? "" : all_[chosen_]; }
  [[nodiscard]] const std::vector<std::string>& all() const { return all_; }
  /// Whether the chosen version is `since` or later.
  [[nodiscard]] bool has(const std::string& since) const {
    return static_cast<std::size_t>(std::find(all_.begin(), all_.end(), since) - all_.begin()) <= chosen_;
  }

 private:
  std::vector<std::string> all_;
  std::size_t chosen_ = 0;
};

void read_values(MapReader& reader, Decision decision, const Versions& versions, Framework& out) {
  const std::string key(moeplan::name_of<Decision>(kFrameworkDecisionNames, decision));
  if (!reader.has(key)) return;
  const std::vector<std::string> known = known_values(decision);
  MapReader values = reader.map(key);
  for (const Entry& entry : values.node().entries) {
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) continue;  // finish() reports it
    MapReader value = values.map(entry.key);
    const std::string theirs = value.text_or("as", ""), since = value.text_or("since", "");
    if (!since.empty() && std::find(versions.all().begin(), versions.all().end(), since) == versions.all().end())
      value.complain("since", fmt::format("{} is no version of this file", in_quotes(since)));
    value.finish();
    if (since.empty() || versions.has(since)) out.values[decision][entry.key] = theirs;
  }
  values.finish();
}

FrameworkArgument argument_of(const Node& node, const std::string& path, Diagnostics& wrong) {
  FrameworkArgument out;
  if (node.kind == Node::Kind::List) {
    for (const Node& choice : node.items) out.choices.push_back(choice.scalar);
    return out;
  }
  const auto type = named<FrameworkArgument::Type>(kArgumentTypeNames, node.scalar);
  if (type) out.type = *type;
  if (!type) {
    wrong.add(node.where, path,
              fmt::format("{} is no type{}", in_quotes(node.scalar),
                          suggestion(node.scalar, all_names<FrameworkArgument::Type>(kArgumentTypeNames))));
  }
  return out;
}

void read_arguments(const Node& arguments, const Versions& versions, Framework& out, Diagnostics& wrong) {
  for (const Entry& e : arguments.entries) {
    const std::string path = "arguments." + e.key;
    const Node* type = e.value.kind == Node::Kind::Map ? e.value.find("type") : &e.value;
    const Node* since = e.value.find("since");
    if (type == nullptr) wrong.add(e.value.where, path, "has no type");
    if (since && std::find(versions.all().begin(), versions.all().end(), since->scalar) == versions.all().end())
      wrong.add(since->where, path + ".since", fmt::format("{} is no version of this file", in_quotes(since->scalar)));
    if (!type || (since && !versions.has(since->scalar))) continue;
    FrameworkArgument argument = argument_of(*type, path, wrong);
    if (const Node* aliases = e.value.find("aliases")) {
      for (const Node& alias : aliases->items) argument.aliases.push_back(alias.scalar);
    }
    out.arguments[e.key] = std::move(argument);
  }
}

}  // namespace

bool Framework::has(FrameworkDecision decision, std::string_view value) const {
  const auto of = values.find(decision);
  return of != values.end() && of->second.contains(std::string(value));
}

std::string Framework::own_name(FrameworkDecision decision, const std::string& value) const {
  const auto of = values.find(decision);
  if (of == values.end()) return "";
  const auto it = of->second.find(value);
  return it == of->second.end() ? "" : it->second;
}

std::vector<std::string> Framework::values_named(FrameworkDecision decision, std::string_view own_name) const {
  std::vector<std::string> names;
  const auto of = values.find(decision);
  if (of == values.end()) return names;
  for (const auto& [ours, theirs] : of->second) {
    if ((theirs.empty() ? ours : theirs) == own_name) names.push_back(ours);
  }
  return names;
}

bool Framework::serves() const {
  return std::find(overrides.begin(), overrides.end(), "workload.mode=forward") != overrides.end();
}

Framework read_framework(const Node& document, const std::string& version) {
  Diagnostics wrong;
  MapReader reader(document, "", wrong);
  Framework out;
  out.name = reader.text("framework");
  out.title = reader.text("title");
  const Versions versions(reader, version);
  out.version = versions.chosen();
  for (const auto& [decision, key] : kFrameworkDecisionNames) read_values(reader, decision, versions, out);
  for (const auto& [node, path] : reader.list_or_empty("rules")) {
    const auto rule = named<FrameworkRule>(kFrameworkRuleNames, node->scalar);
    if (rule) out.rules.insert(*rule);
    if (!rule) {
      wrong.add(node->where, path,
                fmt::format("{} is no rule{}", in_quotes(node->scalar),
                            suggestion(node->scalar, all_names<FrameworkRule>(kFrameworkRuleNames))));
    }
  }
  if (const Node* workload = reader.find("workload")) {
    for (const Entry& e : workload->entries)
      out.overrides.push_back(fmt::format("workload.{}={}", e.key, e.value.scalar));
  }
  if (const Node* arguments = reader.find("arguments")) read_arguments(*arguments, versions, out, wrong);
  if (const Node* sources = reader.find("sources")) {
    for (const Entry& e : sources->entries) out.sources[e.key] = e.value.scalar;
  }
  reader.finish();
  wrong.throw_if_any();
  return out;
}

bool recomputes_beside(const Framework& framework, const CudaGraphs& graphs, const Recompute& recompute) {
  const bool has_modules = !(graphs == CudaGraphs::None) && !graphs.has(GraphModule::WholeIteration);
  if (!has_modules || !framework.rules.contains(FrameworkRule::GraphsAreNotRecomputed)) return true;
  const bool has_router = recompute.has(RecomputeModule::Moe) && graphs.has(GraphModule::MoeRouter);
  return !recompute.has(RecomputeModule::WholeLayer) && !has_router;
}

Recompute recomputed_by(const Framework& framework, const Recompute& recompute) {
  if (recompute.has(RecomputeModule::WholeLayer)) return recompute;
  const bool has_operations = framework.has(FrameworkDecision::Recompute, kPerOperation);
  if (recompute == Recompute::PerOperation && has_operations) return recompute;
  Recompute out;
  for (const auto& [module, name] : kRecomputeModuleNames) {
    if (recompute.has(module) && framework.has(FrameworkDecision::Recompute, name)) out.add(module);
  }
  return out;
}

void check_workload(const Framework& framework, const Workload& workload, const Node& document) {
  Diagnostics wrong;
  const auto refuse = [&](const std::string& key, Decision decision, const std::string& value) {
    const Node* node = document.find(key);
    std::vector<std::string> names;
    if (const auto of = framework.values.find(decision); of != framework.values.end()) {
      for (const auto& [name, theirs] : of->second) names.push_back(name);
    }
    wrong.add(node ? node->where : document.where, key,
              fmt::format("{} is not in {}; it has {}", in_quotes(value), framework.text(),
                          names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  };
  const auto check = [&](const std::string& key, Decision decision, const std::string& value) {
    if (!framework.has(decision, value)) refuse(key, decision, value);
  };
  if (framework.serves() != (workload.mode == Mode::Forward)) {
    const Node* mode = document.find("mode");
    wrong.add(mode ? mode->where : document.where, "mode",
              fmt::format("{} {}", framework.title,
                          framework.serves() ? "serves: expected forward" : "trains: expected train"));
  }
  check("precision", Decision::Precisions, precision_text(workload));
  if (workload.mode == Mode::Train) {
    check("zero_stage", Decision::ZeroStages, fmt::format("{}", workload.zero_stage));
    if (workload.recompute && !(*workload.recompute == Recompute::Selective) &&
        !(recomputed_by(framework, *workload.recompute) == *workload.recompute))
      refuse("recompute", Decision::Recompute, name_of(*workload.recompute));
    if (workload.recompute == Recompute::Full) check("recompute", Decision::Recompute, "full");
    if (workload.recompute && !recomputes_beside(framework, workload.cuda_graphs, *workload.recompute)) {
      const Node* node = document.find("recompute");
      wrong.add(node ? node->where : document.where, "recompute",
                fmt::format("{} recomputes nothing that CUDA graphs of modules ({}) capture; {} does", framework.title,
                            name_of(workload.cuda_graphs), name_of(*workload.recompute)));
    }
    const RecomputedLayers& layers = workload.recompute_layers;
    const bool has_layers = layers.first_of_part && workload.recompute.value_or(Recompute::Full) == Recompute::Full &&
                            framework.has(Decision::Recompute, kFirstLayers);
    if (!layers.all() && !has_layers) refuse("recompute_layers", Decision::Recompute, name_of(layers));
  }
  for (const auto& [module, name] : kGraphModuleNames) {
    if (workload.cuda_graphs.has(module)) check("cuda_graph", Decision::GraphModules, std::string(name));
  }
  if (workload.cuda_graphs.has(GraphModule::WholeIteration))
    check("cuda_graph", Decision::GraphModules, "full_iteration");
  wrong.throw_if_any();
}

}  // namespace moeplan::planner
