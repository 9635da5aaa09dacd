// A whole cluster file from what is known of a machine: given numbers, or a tool's view of one node, and a shipped
// cluster with the same GPU for what these do not say.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "profiler/fits/measured_cluster.hpp"
#include "profiler/tables/fabric_topology.hpp"
#include "profiler/tables/node_topology.hpp"

namespace moeplan::profiler {

/// NICs of a node: "8x400Gbps".
struct Nics {
  std::int64_t count;
  BytesPerSecond bandwidth;  // of one, each direction
  bool operator==(const Nics&) const = default;
};

/// What a new cluster is made of. Each fact has its origin: the option or the file that says it.
struct ClusterFacts {
  std::string name, gpu;
  std::string source;  // of what `node` and `fabric` show: "nccl-topo FILE"
  std::optional<std::int64_t> nodes;
  std::optional<std::int64_t> gpus_per_node;  // used ones
  std::optional<std::int64_t> spare;          // others of the same NVLink domain, which no job uses
  std::optional<Nics> nics;
  std::optional<NodeTopology> node;
  std::optional<FabricTopology> fabric;
};

struct NewCluster {
  Node document;
  std::vector<std::string> notes;  // what is assumed, left out or as in the similar cluster, and why
};

/// The document of the cluster. Without a similar cluster, latencies and start-up times are assumed, and a node or a
/// cluster of several nodes must be described by the facts. Raises InputError, located at "--nics", "--like" or
/// "--nodes", for what is missing.
[[nodiscard]] NewCluster new_cluster(const ClusterFacts& facts, const std::optional<SimilarCluster>& like);

}  // namespace moeplan::profiler
