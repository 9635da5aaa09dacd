// Cluster templates: machines that scale in whole nodes, and their expansion into a topology.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "model/base/quantity.hpp"
#include "model/machine/topology.hpp"

namespace moeplan {

/// Limits on the size of a cluster, so that no input exhausts memory.
inline constexpr std::int64_t kMostWorld = 1'048'576;  // GPUs of a job
inline constexpr std::int64_t kMostPerNode = 1024;     // GPUs or NICs of one node
inline constexpr std::int64_t kMostRanksPerGpu = 1024;
inline constexpr std::int64_t kMostLinks = 16'777'216;  // directed links of a topology

/// The links inside a node.
struct PcieTree {                         // GPU - PCIe switch - host bridge - (UPI) - host bridge ...
  std::int64_t gpus_per_switch;           // 0: GPUs are attached to the host bridge directly
  std::int64_t switches_per_bridge;       // GPUs per bridge if there are no switches
  BytesPerSecond pcie_bandwidth;          // of one x16 slot, each direction
  BytesPerSecond inter_bridge_bandwidth;  // UPI / Infinity Fabric, each direction; unused with one bridge
  Seconds latency;                        // per hop
  bool operator==(const PcieTree&) const = default;
};
struct NvLink {  // one NVLink connection between two GPUs, bandwidth in each direction
  std::int64_t a;
  std::int64_t b;
  BytesPerSecond bandwidth;
  bool operator==(const NvLink&) const = default;
};
struct NvlinkMesh {  // direct GPU-GPU links in addition to a PCIe tree
  std::vector<NvLink> links;
  Seconds latency;
  PcieTree pcie;
  bool operator==(const NvlinkMesh&) const = default;
};
struct NvSwitch {  // every GPU connected to a non-blocking switch
  BytesPerSecond bandwidth;
  Seconds latency;
  bool operator==(const NvSwitch&) const = default;
};
using NodeLinks = std::variant<PcieTree, NvlinkMesh, NvSwitch>;

/// The network between nodes.
enum class FabricKind { SingleSwitch, RailOptimised, RailOnly, DualPlane, Dragonfly };
struct Fabric {
  FabricKind kind;
  std::int64_t nics_per_node;    // NIC i serves GPUs i * gpus/nics ...; with rails, NIC i of every node is rail i
  BytesPerSecond nic_bandwidth;  // each direction
  Seconds latency;               // from NIC to switch, and of each switch hop
  double oversubscription;       // >= 1: down capacity over uplink capacity, of a leaf or of a dragonfly group
  std::int64_t nodes_per_leaf;   // per leaf group or dragonfly group; SingleSwitch: 1, like oversubscription
  bool operator==(const Fabric&) const = default;
};

struct ClusterTemplate {
  std::int64_t nodes;  // existing nodes; --world may ask for fewer GPUs, or for more if there is a fabric
  std::int64_t gpus_per_node;
  std::optional<std::int64_t> used_per_node = {};  // GPUs of each node that jobs use; none: used_per_node() decides
  NodeLinks intra_node;
  std::optional<Fabric> fabric;  // none: a single node
  bool operator==(const ClusterTemplate&) const = default;
};

/// Whether the nodes are NVLink domains of more GPUs than a host has (16), which a fabric joins.
[[nodiscard]] bool is_rack(const ClusterTemplate& machine);

/// The GPUs of each node that a job of `gpus` uses: as many as the template says, or else all. Of racks that do not
/// divide a larger job it is the largest number of at least half of them that does, 64 of 72, provided that the job
/// then fits on the existing nodes or is too large for them anyway.
[[nodiscard]] std::int64_t used_per_node(const ClusterTemplate& machine, std::int64_t gpus);

/// The template with the used GPUs of each node, and their share of its NICs, alone.
[[nodiscard]] ClusterTemplate used_part(ClusterTemplate machine, std::int64_t gpus);

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
/// - rail_only: the same with a spine for each rail, so that no switch joins two rails. Traffic to another rail first
///   goes to a GPU of that rail in the source's node over the NVSwitch, through that GPU's NVLinks and NIC (NCCL's PXN;
///   [Rail-only] Wang et al., arXiv 2307.12169, sec. 3), or to its NIC through host bridges.
/// - dual_plane: every NIC has two ports of half its bandwidth, each in a plane of its own; a plane has the leaves and
///   the spine of rail_optimised, and no switch joins two planes. Traffic is divided equally between them.
/// - dragonfly: groups of nodes_per_leaf nodes share one non-blocking switch; every pair of groups has a global link.
///   The global links of a group have a total bandwidth of that of its NICs / oversubscription. Minimal routing only.
///
/// The capacities of leaves and groups are those of the whole template, or of its extension, never of a part of it.
/// Raises InputError if the graph would have more than 16,777,216 links.
[[nodiscard]] Topology expand(const ClusterTemplate& machine, std::int64_t nodes);

}  // namespace moeplan
