// From the names on the command line to resolved documents and typed values.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/plan/plan.hpp"

namespace moeplan::planner {

/// Where configs/ is looked for, in order: $MOEPLAN_CONFIGS alone where it is set, else ../share/moeplan/configs from
/// the installed executable, the sources, ../../../configs.
[[nodiscard]] std::vector<std::filesystem::path> config_places();

/// The first of these that is a directory. Raises InputError that names all of them, and how to name another.
[[nodiscard]] std::filesystem::path config_directory(
    const std::vector<std::filesystem::path>& places = config_places());

/// Where GPUs are looked for that a cluster names: configs/gpus; nowhere without configs/, since a cluster may describe
/// its GPU itself.
[[nodiscard]] std::vector<std::filesystem::path> gpu_directories();

/// A path as it is if it has a slash or names an existing file with an ending; else NAME.yaml in configs/KIND. Raises
/// InputError with the nearest name, or without configs/.
[[nodiscard]] std::filesystem::path find_config(const std::string& kind, const std::string& name);

/// Names in configs/KIND, sorted. Raises InputError without configs/.
[[nodiscard]] std::vector<std::string> config_names(const std::string& kind);

/// Loads, merges, embeds and overrides (`-C cluster.a.b=c`). Raises InputError.
[[nodiscard]] PlanInputs load_inputs(const std::string& cluster, const std::string& model, const std::string& workload,
                                     const std::vector<std::string>& overrides);

/// Applies `cluster.a.b=c` and the like, and notes them. Raises InputError with all that are wrong.
void apply_overrides(PlanInputs& inputs, const std::vector<std::string>& overrides);

/// The typed values of resolved documents.
struct Inputs {
  ClusterSpec cluster;
  ModelSpec model;
  Workload workload;
};
[[nodiscard]] Inputs read_inputs(const PlanInputs& documents);

/// Whether the workload's gate takes the ratio of bandwidths from the cluster.
[[nodiscard]] inline bool needs_net_over_local(const Workload& workload) {
  return workload.gate.kind == GateKind::Topology && !workload.gate.net_over_local;
}
/// Gives it that ratio, where it needs one. Raises InputError, at the gate of the workload's document, where the
/// cluster has none.
void resolve_gate(Workload& workload, std::optional<double> cluster_ratio, const Node& document);

/// build_cluster() of a file: its errors name the file.
[[nodiscard]] Cluster build_cluster_of(const std::string& file, const ClusterSpec& spec,
                                       std::optional<std::int64_t> world);

/// A cluster document with its GPU embedded.
[[nodiscard]] Node load_cluster_document(const std::filesystem::path& path);

/// A model document from a file in our form or a Hugging Face config.json.
[[nodiscard]] Node load_model_document(const std::filesystem::path& path);

}  // namespace moeplan::planner
