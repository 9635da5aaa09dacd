// A cluster template, grown into its graph.
#pragma once

#include <cstdint>

#include "model/machine/cluster.hpp"

namespace moeplan {

/// The graph of the first `nodes` nodes of a template; nodes in order, and GPUs first within a node.
///
/// Inside a node
/// - pcie_tree: GPU, PCIe switch, host bridge; the bridges are all joined to one another. Without switches GPUs hang on
///   the bridges. NICs hang on the bridges, spread evenly.
/// - nvlink_mesh: the same, and direct links between GPUs, which win by having fewer hops.
/// - nvswitch: every GPU to one switch, and to the NICs of its share. NIC i of N serves GPUs [i G/N, (i+1) G/N) through
///   a port for each GPU, so that two GPUs of one NIC stay nearer through the switch; where there are at least as many
///   NICs as GPUs, NIC i serves GPU floor(i G/N) directly. These links are as fast as the NIC and have no latency of
///   their own: fabric.latency counts from the GPU.
///
/// Between nodes
/// - single_switch: every NIC to one non-blocking core.
/// - rail_optimised: NIC i of the nodes of a leaf group to leaf i of the group; every leaf to one aggregated spine by a
///   link of nodes_per_leaf * nic_bandwidth / oversubscription. Traffic of one rail in one group stays on its leaf.
/// - dragonfly: groups of nodes_per_leaf nodes on one non-blocking switch; every two groups have a global link. The
///   global links of a group together carry its NICs' bandwidth / oversubscription. Only minimal routing.
///
/// The capacities of leaves and groups are those of the template as it stands, or has grown, never of a part of it.
/// Raises InputError if the graph would have more than 16,777,216 links.
[[nodiscard]] Topology expand(const ClusterTemplate& machine, std::int64_t nodes);

}  // namespace moeplan
