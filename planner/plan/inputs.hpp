// Input loading: from the names on the command line to resolved documents and typed values.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/frameworks/framework.hpp"
#include "planner/plan/plan.hpp"

namespace moeplan::planner {

/// The directories in which configs/ is searched, in order: only $MOEPLAN_CONFIGS if it is set, otherwise
/// share/moeplan/configs of the prefix in which the executable or the Python module is installed, the source tree's,
/// that of the prefix that moeplan was configured for, and ../../../configs.
[[nodiscard]] std::vector<std::filesystem::path> config_places();

/// The first of `places` that is a directory. Raises InputError that lists all of them and says how to name another
/// one.
[[nodiscard]] std::filesystem::path config_directory(
    const std::vector<std::filesystem::path>& places = config_places());

/// The directories in which the GPU named by a cluster is searched: configs/gpus. Empty without configs/, since a
/// cluster may describe its GPU itself.
[[nodiscard]] std::vector<std::filesystem::path> gpu_directories();

/// The file of a configuration: `name` itself if it contains a slash or names an existing file with an extension,
/// otherwise configs/KIND/NAME.yaml; of a model also that of an id on Hugging Face (ORGANISATION/MODEL) that names no
/// file. Raises InputError with the nearest name, or if there is no configs/.
[[nodiscard]] std::filesystem::path find_config(const std::string& kind, const std::string& name);

/// The names of configs/models by their ids on Hugging Face (key `hugging_face`), by which find_config() finds them
/// too.
[[nodiscard]] std::map<std::string, std::string> models_by_hugging_face_id();

/// The names in configs/KIND, sorted. Raises InputError if there is no configs/.
[[nodiscard]] std::vector<std::string> config_names(const std::string& kind);

/// Whether a Hugging Face configuration of an unknown family is refused, or read as the nearest known one: its document
/// then says so in `approximations`.
enum class UnknownFamilies { Refused, Approximated };

/// The resolved documents: files loaded, includes merged, the GPU embedded and overrides (`-C cluster.a.b=c`) applied.
/// Raises InputError.
[[nodiscard]] PlanInputs load_inputs(const std::string& cluster, const std::string& model, const std::string& workload,
                                     const std::vector<std::string>& overrides,
                                     UnknownFamilies unknown = UnknownFamilies::Refused);

/// Applies overrides such as `cluster.a.b=c` and records them in `inputs`. Raises InputError with every one that is
/// wrong.
void apply_overrides(PlanInputs& inputs, const std::vector<std::string>& overrides);

/// The typed values of the resolved documents.
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
/// Sets the ratio of bandwidths in the workload if its gate needs one. Raises InputError, located at the gate of the
/// workload's document, if the cluster has none.
void resolve_gate(Workload& workload, std::optional<double> cluster_ratio, const Node& document);

/// A key of a workload for which a GPU has no figures, and which.
struct MissingFigures {
  std::string key, what;
};
/// What figures the GPU lacks: of the recipe's products, and which recipes it has, or of copies to host memory; none if
/// it has them. A GPU without any measured kernels needs none of products: its peak in fp8 and the shares of the peak
/// price 8-bit recipes as they price bf16.
[[nodiscard]] std::optional<MissingFigures> missing_figures(const Workload& workload, const GpuSpec& gpu);

/// Raises InputError, located at the key of the workload's document, if the GPU lacks figures.
void check_figures(const Workload& workload, const GpuSpec& gpu, const Node& document);

/// build_cluster() with errors that name `file`.
[[nodiscard]] Cluster build_cluster_of(const std::string& file, const ClusterSpec& spec,
                                       std::optional<std::int64_t> world);

/// The cluster of a name in configs/clusters or a file, with overrides (`cluster.a.b=c`) applied, and its first `world`
/// ranks if a number is given. Raises InputError.
[[nodiscard]] Cluster load_cluster(const std::string& name, const std::vector<std::string>& overrides,
                                   std::optional<std::int64_t> world);

/// A framework of configs/frameworks, or a file, in one of its versions: "megatron", "megatron@0.15". Raises
/// InputError.
[[nodiscard]] Framework load_framework(const std::string& name_and_version);

/// Settles the workload for a framework: its keys that follow from the framework were overridden before, and selective
/// recomputation becomes what the framework recomputes of it. Raises InputError with every value that it does not run.
void settle_for_framework(const Framework& framework, PlanInputs& documents, Inputs& inputs);

/// A cluster document with its GPU embedded.
[[nodiscard]] Node load_cluster_document(const std::filesystem::path& path);

/// A model document from a file in moeplan's own format or a Hugging Face config.json.
[[nodiscard]] Node load_model_document(const std::filesystem::path& path,
                                       UnknownFamilies unknown = UnknownFamilies::Refused);

/// The sentences of a model document's `approximations`; none where there are none.
[[nodiscard]] std::vector<std::string> approximations_of(const Node& model);

}  // namespace moeplan::planner
