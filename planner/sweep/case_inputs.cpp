#include "planner/sweep/case_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "model/base/sha256.hpp"
#include "model/text/origins.hpp"
#include "planner/plan/inputs.hpp"

namespace moeplan::sweep {

namespace {

/// The path below `root` of a key such as `cluster.gpu.memory`; none if the key has another root.
std::optional<std::string> path_below(const std::string& root, const std::string& key) {
  if (!key.starts_with(root + ".")) return std::nullopt;
  return key.substr(root.size() + 1);
}

void drop(Node& map, std::string_view key) {
  std::erase_if(map.entries, [&](const Entry& e) { return e.key == key; });
}

/// A hash of a document without its name and the origins of its numbers.
std::string digest_of(Node document) {
  drop(document, "name");
  drop(document, "origins");
  if (Node* gpu = document.find("gpu")) {
    drop(*gpu, "name");
    drop(*gpu, "origins");
  }
  return sha256(to_yaml(document));
}

/// A sweep's settings, grouped by the input that they change.
struct Parts {
  std::string cluster, model, workload = "default";
  std::optional<std::int64_t> world = {};
  std::vector<Assignment> of_cluster = {}, of_model = {}, of_workload = {}, decisions = {};
};

Parts parts_of(const std::vector<Assignment>& assignments) {
  Parts parts;
  for (const Assignment& a : assignments) {
    if (a.key == "cluster") {
      parts.cluster = a.value;
    } else if (a.key == "model") {
      parts.model = a.value;
    } else if (a.key == "workload") {
      parts.workload = a.value;
    } else if (a.key == "world") {
      const auto world = parse_integer(a.value);
      constexpr long long kMostRanks = 1'048'576;
      if (!std::holds_alternative<long long>(world) || std::get<long long>(world) < 1 ||
          std::get<long long>(world) > kMostRanks) {
        throw InputError(
            {{}, "world", fmt::format("{} is no number of ranks from 1 to {}", in_quotes(a.value), kMostRanks)});
      }
      parts.world = std::get<long long>(world);
    } else if (const auto in_cluster = path_below("cluster", a.key)) {
      parts.of_cluster.push_back({*in_cluster, a.value});
    } else if (const auto in_model = path_below("model", a.key)) {
      parts.of_model.push_back({*in_model, a.value});
    } else if (const auto in_workload = path_below("workload", a.key)) {
      parts.of_workload.push_back({*in_workload, a.value});
    } else if (!a.key.empty()) {
      parts.decisions.push_back(a);
    }
  }
  return parts;
}

}  // namespace

const Node& CaseResolver::document(const std::string& kind, const std::string& name) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Node>& document = documents_[{kind, name}];
  if (!document) {
    const std::filesystem::path path = sweep_config(sweep_, kind, name);
    document = std::make_unique<Node>(kind == "models"     ? planner::load_model_document(path)
                                      : kind == "clusters" ? planner::load_cluster_document(path)
                                                           : load_document(path));
  }
  return *document;
}

Node CaseResolver::changed(const std::string& kind, const std::string& name, const Overrides& overrides) {
  Node copy = document(kind, name);
  const std::string root = kind.substr(0, kind.size() - 1);  // "clusters" is the folder of documents named cluster
  for (const Assignment& a : overrides) {
    override_value(copy, a.key, a.value, fmt::format("{}.{}={}", root, a.key, a.value));
  }
  if (kind == "clusters") {
    embed_files(copy, planner::gpu_directories());  // an override may name a GPU
    if (!overrides.empty()) record_overrides(copy);
  }
  return copy;
}

CaseInputs CaseResolver::resolved(std::int64_t place) {
  const std::vector<Assignment> assignments = sweep_.assignments_at(place);
  Parts parts = parts_of(assignments);
  CaseInputs inputs;
  const std::string world = parts.world ? fmt::format("{}", *parts.world) : "all";
  inputs.cluster = clusters_.get(parts.cluster + '\n' + world + '\n' + text_of(parts.of_cluster), [&] {
    const Node document = changed("clusters", parts.cluster, parts.of_cluster);
    const ClusterSpec spec = read_cluster(document);
    Cluster cluster = planner::build_cluster_of(parts.cluster, spec, parts.world);
    return ResolvedCluster{sha256(digest_of(document) + fmt::format("{}", cluster.world_size())), std::move(cluster),
                           net_over_local(spec)};
  });
  inputs.model = models_.get(parts.model + '\n' + text_of(parts.of_model), [&] {
    const Node document = changed("models", parts.model, parts.of_model);
    return Resolved<ModelSpec>{digest_of(document), read_model(document)};
  });
  const WorkloadLimits limits = WorkloadLimits::of(inputs.model->value);
  const std::string name = fmt::format("{}\n{}\n{}\n{}", parts.workload, limits.learned_positions, limits.layers,
                                       text_of(parts.of_workload));
  inputs.workload = workloads_.get(name, [&] {
    const Node document = changed("workloads", parts.workload, parts.of_workload);
    return Resolved<Workload>{digest_of(document), read_workload(document, limits)};
  });
  if (planner::needs_net_over_local(inputs.workload->value)) {
    const std::optional<double> ratio = inputs.cluster->net_over_local;
    inputs.workload = workloads_.get(fmt::format("{}\ngate {}", name, ratio.value_or(0)), [&] {
      Resolved<Workload> gated = *inputs.workload;
      planner::resolve_gate(gated.value, ratio, changed("workloads", parts.workload, parts.of_workload));
      return gated;
    });
  }
  planner::check_figures(inputs.workload->value, inputs.cluster->value.gpu,
                         changed("workloads", parts.workload, parts.of_workload));
  inputs.decisions = std::move(parts.decisions);
  inputs.key =
      sha256(fmt::format("{}\n{}\n{}\n{}\n{}\n{}", name_of<SweepKind>(kSweepKindNames, sweep_.kind), sweep_.budget,
                         inputs.cluster->digest, inputs.model->digest, inputs.workload->digest, text_of(assignments)));
  return inputs;
}

std::string CaseResolver::key_of_unreadable(std::int64_t place) const {
  return sha256("unreadable\n" + text_of(sweep_.assignments_at(place)));
}

std::string CaseResolver::fingerprint() {
  std::string text = fmt::format("{}\n{}\n", name_of<SweepKind>(kSweepKindNames, sweep_.kind), sweep_.budget);
  const auto add_file = [&](const Setting& setting, const std::string& value) {
    for (const auto& [key, kind] :
         {std::pair("cluster", "clusters"), std::pair("model", "models"), std::pair("workload", "workloads")}) {
      if (setting.key == key) text += digest_of(document(kind, value)) + '\n';
    }
  };
  bool names_workload = false;
  const auto add = [&](const Axis& axis) {
    text += fmt::format("{} sets {}\n", axis.setting.name, axis.setting.key);
    for (const std::string& value : axis.values) {
      text += value + '\n';
      add_file(axis.setting, value);
    }
    names_workload = names_workload || axis.setting.key == "workload";
  };
  for (const Axis& a : sweep_.base) add(a);
  for (const Axis& a : sweep_.axes) add(a);
  if (!names_workload) text += digest_of(document("workloads", "default"));
  for (const auto& together : sweep_.dimensions) text += fmt::format("{}\n", fmt::join(together, " "));
  for (const DerivedSetting& d : sweep_.derived) text += fmt::format("{} = {}\n", d.setting.name, d.expression.text());
  for (const Expression& e : sweep_.when) text += fmt::format("when {}\n", e.text());
  for (const std::string& output : sweep_.outputs) text += output + '\n';
  return sha256(text);
}

}  // namespace moeplan::sweep
