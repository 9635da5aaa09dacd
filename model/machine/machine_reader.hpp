// The two ways a cluster file describes its machine, read into values.
#pragma once

#include "model/machine/cluster.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// Limits on what a file may ask for, so that no input exhausts memory.
inline constexpr std::int64_t kMostWorld = 1'048'576;  // GPUs of a job
inline constexpr std::int64_t kMostPerNode = 1024;     // GPUs or NICs of one node
inline constexpr std::int64_t kMostRanksPerGpu = 1024;
inline constexpr std::int64_t kMostLinks = 16'777'216;  // directed links of a machine

/// `template:` of a cluster file.
[[nodiscard]] ClusterTemplate read_template(MapReader machine);

/// `vertices:` and `links:` of a cluster file. GPUs must say their `node`; a link's tier, where it is not given,
/// follows from its ends: inside one node, between network switches (core), or between a node and the network (nic).
[[nodiscard]] Topology read_topology(MapReader& cluster);

}  // namespace moeplan
