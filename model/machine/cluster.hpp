// A GPU cluster: what is bought (ClusterSpec, as files in configs/clusters say it) and what a job runs on (Cluster).
//
// A ClusterSpec is a template that grows in whole nodes, or explicit vertices and directed links. build_cluster() makes
// the graph for a number of GPUs. Every number of a file is covered by an entry of its `origins:` map, which says
// "measured: ...", "datasheet: ...", "published: ..." or "assumed: ..." with the source (origins.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/base/ids.hpp"
#include "model/base/quantity.hpp"
#include "model/machine/gpu.hpp"
#include "model/machine/symmetry.hpp"
#include "model/machine/topology.hpp"
#include "model/text/document.hpp"

namespace moeplan {

enum class Collective { AllToAll, AllGather, ReduceScatter, AllReduce, Broadcast, SendReceive };
enum class Span { IntraNode, InterNode };  // whether a group lies in one node

inline constexpr std::array<std::pair<Collective, std::string_view>, 6> kCollectiveNames{
    {{Collective::AllToAll, "all_to_all"},
     {Collective::AllGather, "all_gather"},
     {Collective::ReduceScatter, "reduce_scatter"},
     {Collective::AllReduce, "all_reduce"},
     {Collective::Broadcast, "broadcast"},
     {Collective::SendReceive, "send_receive"}}};
inline constexpr std::array<std::pair<Span, std::string_view>, 2> kSpanNames{
    {{Span::IntraNode, "intra_node"}, {Span::InterNode, "inter_node"}}};

/// t = alpha + n beta, n as in MODELS section 0: the send buffer of a GPU for all-to-all, the gathered output for
/// all-gather, the input for reduce-scatter, the tensor for all-reduce and broadcast, the message for send-receive.
struct AlphaBeta {
  Seconds alpha;
  SecondsPerByte beta;
  bool operator==(const AlphaBeta&) const = default;
};

/// The links inside a node.
struct PcieTree {                         // GPU - PCIe switch - host bridge - (UPI) - host bridge ...
  std::int64_t gpus_per_switch;           // 0: GPUs hang on the host bridge itself
  std::int64_t switches_per_bridge;       // GPUs per bridge where there are no switches
  BytesPerSecond pcie_bandwidth;          // of one x16 slot, each direction
  BytesPerSecond inter_bridge_bandwidth;  // UPI / Infinity Fabric, each direction; unused with one bridge
  Seconds latency;                        // of one hop
  bool operator==(const PcieTree&) const = default;
};
struct NvLink {  // one NVLink connection of two GPUs, each direction
  std::int64_t a;
  std::int64_t b;
  BytesPerSecond bandwidth;
  bool operator==(const NvLink&) const = default;
};
struct NvlinkMesh {  // direct GPU-GPU links beside a PCIe tree
  std::vector<NvLink> links;
  Seconds latency;
  PcieTree pcie;
  bool operator==(const NvlinkMesh&) const = default;
};
struct NvSwitch {  // every GPU to a non-blocking switch
  BytesPerSecond bandwidth;
  Seconds latency;
  bool operator==(const NvSwitch&) const = default;
};
using IntraNode = std::variant<PcieTree, NvlinkMesh, NvSwitch>;

/// The network between nodes.
enum class FabricKind { SingleSwitch, RailOptimised, Dragonfly };
struct Fabric {
  FabricKind kind;
  std::int64_t nics_per_node;    // NIC i serves GPUs i * gpus/nics ...; RailOptimised: NIC i of every node is rail i
  BytesPerSecond nic_bandwidth;  // each direction
  Seconds latency;               // NIC to switch, and of each switch hop
  double oversubscription;      // >= 1: uplink capacity of a leaf (of a dragonfly group) is its down capacity over this
  std::int64_t nodes_per_leaf;  // RailOptimised: nodes a leaf group; Dragonfly: nodes a group; SingleSwitch: both are 1
  bool operator==(const Fabric&) const = default;
};

struct ClusterTemplate {
  std::int64_t nodes;  // how many exist; --world may ask for fewer GPUs, or for more where there is a fabric
  std::int64_t gpus_per_node;
  IntraNode intra_node;
  std::optional<Fabric> fabric;  // none: a single node
  bool operator==(const ClusterTemplate&) const = default;
};

/// What a measured alpha-beta is of. Without a shape (ranks 0): of groups of any size, and of any message from `from`
/// on. With one: of groups of so many ranks on so many nodes; the entries of one shape are the pieces of a curve by
/// message size. How groups of other shapes follow from them: costs/measured_cost.hpp.
struct CollectiveKey {
  Collective collective;
  Span span;
  bool in_place = false;   // measured without the copy of a rank's own part (the in-place column of nccl-tests)
  std::int64_t nodes = 0;  // of the group
  std::int64_t ranks = 0;
  Bytes from{};  // the n (see AlphaBeta) at which the piece begins; below the first piece, the first holds
  friend auto operator<=>(const CollectiveKey&, const CollectiveKey&) = default;
};

/// Measured costs; what is not measured follows from the links alone.
using CollectiveCosts = std::map<CollectiveKey, AlphaBeta>;

struct ClusterSpec {
  std::string name;
  GpuSpec gpu;
  std::variant<ClusterTemplate, Topology> machine;
  CollectiveCosts collectives;
  Seconds collective_startup;      // software start-up of a collective that is not measured
  Seconds message_overhead;        // serial cost at the sender of each message of an all-to-all that is not measured
  std::int64_t ranks_per_gpu = 1;  // several ranks of a job on each GPU: for checks on few GPUs
  bool operator==(const ClusterSpec&) const = default;
};

/// Reads a cluster whose `gpu:` is embedded (embed_gpu). Measured alpha-betas stand in a list `collectives:`
/// (CollectiveKey); one without `alpha` starts as what is not measured, where messages were too large to tell. Raises
/// InputError with everything that is wrong, a beta that no machine can have for one.
[[nodiscard]] ClusterSpec read_cluster(const Node& document);

/// Replaces `gpu: NAME` by the content of NAME.yaml in the first of `gpu_dirs` that has it (a path with a slash starts
/// from the file it stands in), so that the document stands alone. Raises InputError.
void embed_gpu(Node& cluster, const std::vector<std::filesystem::path>& gpu_dirs);

/// What a job runs on: the graph, and the GPU of each rank (node by node, so that rank r is GPU r / ranks_per_gpu).
///
/// Ranks that share a GPU share its SMs: those that compute at the same time each run at an equal part of the GPU's
/// speed (processor sharing; the launch of a kernel counts as part of it, assumed), and all are slowed while any of
/// them communicates. Transfers between them are copies in its memory: a link of the GPU to itself with half of the
/// bandwidth that memory-bound kernels reach, since a copied byte is read and written. All of them must fit into its
/// memory.
struct Cluster {
  std::string name;
  GpuSpec gpu;
  Topology topology;
  std::vector<VertexId> gpu_of_rank;
  std::vector<int> node_of_rank;
  CollectiveCosts collectives;
  Seconds collective_startup;
  Seconds message_overhead;
  Routes routes;
  /// Sizes at which consecutive ranks part: of a PCIe switch, a host bridge, a NIC's share, a node, a leaf group. Empty
  /// where that is not known (explicit machines), and then no symmetry is looked for.
  std::vector<std::int64_t> natural_boundaries{};
  std::int64_t ranks_per_gpu = 1;      // consecutive ones; the last GPU may have fewer
  std::vector<LinkId> memory_links{};  // of each GPU, where ranks share them
  SymmetryCache symmetries{};

  [[nodiscard]] std::int64_t world_size() const { return static_cast<std::int64_t>(gpu_of_rank.size()); }
  [[nodiscard]] std::int64_t gpus() const { return (world_size() + ranks_per_gpu - 1) / ranks_per_gpu; }
  /// What a rank may use of its GPU's memory.
  [[nodiscard]] Bytes memory_per_rank() const;
  /// The way from a rank to another: Routes::between their GPUs, or a copy inside one.
  [[nodiscard]] Route route(RankId from, RankId to) const;
  /// Consecutive ranks that share a node, where every node has as many; else 1.
  [[nodiscard]] std::int64_t ranks_per_node() const;
};

/// The first `world` ranks (as many as all GPUs that exist hold, if not given), at most 1,048,576. A template with a
/// fabric grows to as many whole nodes as are needed; explicit machines and a template without fabric do not. Raises
/// InputError if the GPUs are too few or not all connected.
[[nodiscard]] Cluster build_cluster(const ClusterSpec& spec, std::optional<std::int64_t> world);

}  // namespace moeplan
