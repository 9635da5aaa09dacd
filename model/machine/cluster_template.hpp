// Expansion of a cluster template into its topology.
#pragma once

#include <cstdint>

#include "model/machine/cluster.hpp"

namespace moeplan {

/// The topology of the first `nodes` nodes of a template. Vertices are ordered by node, GPUs first within a node.
///
/// Inside a node
/// - pcie_tree: GPU, PCIe switch, host bridge; the bridges are fully connected to one another. Without switches, GPUs
///   are attached to the bridges. NICs are attached to the bridges, evenly distributed.
/// - nvlink_mesh: the same, plus direct links between GPUs, which are preferred because they have fewer hops.
/// - nvswitch: every GPU is connected to one switch and to the NICs that serve it. NIC i of N serves GPUs [i G/N, (i+1)
///   G/N) through one port per GPU, so that the path between two GPUs of one NIC through the switch is shorter; with at
///   least as many NICs as GPUs, NIC i serves GPU floor(i G/N) directly. These links have the NIC's bandwidth and no
///   latency of their own: fabric.latency counts from the GPU.
///
/// Between nodes
/// - single_switch: every NIC is connected to one non-blocking core switch.
/// - rail_optimised: NIC i of the nodes of a leaf group is connected to leaf i of the group; every leaf is connected to
///   one aggregated spine by a link of nodes_per_leaf * nic_bandwidth / oversubscription. Traffic of one rail within
///   one group stays on its leaf.
/// - dragonfly: groups of nodes_per_leaf nodes share one non-blocking switch; every pair of groups has a global link.
///   The global links of a group have a total bandwidth of that of its NICs / oversubscription. Minimal routing only.
///
/// The capacities of leaves and groups are those of the whole template, or of its extension, never of a part of it.
/// Raises InputError if the graph would have more than 16,777,216 links.
[[nodiscard]] Topology expand(const ClusterTemplate& machine, std::int64_t nodes);

}  // namespace moeplan
