// Readers of the two forms of cluster description: a template, or explicit vertices and links.
#pragma once

#include "model/machine/cluster.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// Limits on the size of a cluster, so that no input exhausts memory.
inline constexpr std::int64_t kMostWorld = 1'048'576;  // GPUs of a job
inline constexpr std::int64_t kMostPerNode = 1024;     // GPUs or NICs of one node
inline constexpr std::int64_t kMostRanksPerGpu = 1024;
inline constexpr std::int64_t kMostLinks = 16'777'216;  // directed links of a topology

/// Reads `template:` of a cluster file.
[[nodiscard]] ClusterTemplate read_template(MapReader machine);

/// Reads `vertices:` and `links:` of a cluster file. Every GPU must give its `node`. The default tier of a link follows
/// from its ends: within one node (intra_node), between network switches (core), or between a node and the network
/// (nic).
[[nodiscard]] Topology read_topology(MapReader& cluster);

}  // namespace moeplan
