// Readers of the two forms of cluster description: a template, or explicit vertices and links.
#pragma once

#include "model/machine/cluster_template.hpp"
#include "model/machine/topology.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// Reads `template:` of a cluster file.
[[nodiscard]] ClusterTemplate read_template(MapReader machine);

/// Reads `vertices:` and `links:` of a cluster file. Every GPU must give its `node`. The default tier of a link follows
/// from its ends: within one node (intra_node), between network switches (core), or between a node and the network
/// (nic).
[[nodiscard]] Topology read_topology(MapReader& cluster);

}  // namespace moeplan
