// Helpers for tests of specifications: documents and specs from files and text, and the errors that reading them
// raises.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/machine/cluster.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests {

inline const std::filesystem::path kConfigs = std::filesystem::path(MOEPLAN_SOURCE_DIR) / "configs";

/// The YAML files in a folder of configs/.
inline std::vector<std::filesystem::path> files_in(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(kConfigs / folder)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  return files;
}

/// The GPU of a file in configs/gpus.
inline GpuSpec load_gpu(const std::string& name) {
  Node document = load_document(kConfigs / "gpus" / (name + ".yaml"));
  embed_operators(document, {kConfigs / "gpus"});
  Diagnostics wrong;
  const GpuSpec gpu = read_gpu(MapReader(document, "", wrong));
  wrong.throw_if_any();
  return gpu;
}

/// The document of a cluster file with its GPU embedded.
inline Node cluster_document(const std::filesystem::path& path) {
  Node document = load_document(path);
  embed_files(document, {kConfigs / "gpus"});
  return document;
}

inline ClusterSpec load_cluster(const std::filesystem::path& path) { return read_cluster(cluster_document(path)); }

/// The path of a file in configs/clusters.
inline std::filesystem::path cluster_path(const std::string& name) { return kConfigs / "clusters" / (name + ".yaml"); }

/// A cluster of configs/clusters with `world` ranks, or its own size if not given.
inline Cluster built_cluster(const std::string& name, std::optional<std::int64_t> world = std::nullopt) {
  return build_cluster(load_cluster(cluster_path(name)), world);
}

inline const std::string kGpuText = R"(
  name: toy
  peak: {bf16: 100 TFLOP/s}
  memory: 80 GB
  hbm_bandwidth: 2 TB/s
  gemm_efficiency: 0.8
  attention_efficiency: 0.5
  memory_efficiency: 0.9
  launch_overhead: 4 us
  num_sms: 100
  tile_rows: 128
  tile_columns: 128
  slowdown_beside_communication: 1.1
  origins: {"": "assumed: a toy"}
)";

/// The text of a cluster file with the toy GPU and the given machine section.
inline std::string cluster_text(const std::string& machine) {
  return "name: t\ncollective_startup: 10 us\nmessage_overhead: 0\norigins: {\"\": \"assumed: a test\"}\n" + machine +
         "\ngpu:" + kGpuText;
}

/// The specification of a cluster with the toy GPU and the given machine section.
inline ClusterSpec cluster_from(const std::string& machine) {
  return read_cluster(parse_yaml(cluster_text(machine), "c.yaml"));
}

inline const std::string kNvSwitch = "  intra_node: {kind: nvswitch, bandwidth: 450 GB/s, latency: 0.5 us}\n";
inline const std::string kSingleSwitch =
    "{kind: single_switch, nics_per_node: 8, nic_bandwidth: 50 GB/s, latency: 1 us}";

/// The machine section of nodes of 8 GPUs on an NVSwitch, with the given fabric or none.
inline std::string nv_template(const std::string& fabric, int nodes = 4) {
  return "template:\n  nodes: " + std::to_string(nodes) + "\n  gpus_per_node: 8\n" + kNvSwitch +
         (fabric.empty() ? "" : "  fabric: " + fabric + "\n");
}

}  // namespace moeplan::tests
