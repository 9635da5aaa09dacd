// A GPU cluster: its description (ClusterSpec, the content of a file in configs/clusters) and the part of it that a job
// uses (Cluster).
//
// A ClusterSpec is either a template that scales in whole nodes, or a list of explicit vertices and directed links.
// build_cluster() builds the graph for a given number of GPUs. Every number in a file is covered by an entry of its
// `origins:` map, which says "measured: ...", "datasheet: ...", "published: ..." or "assumed: ..." with the source
// (origins.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "model/base/ids.hpp"
#include "model/base/quantity.hpp"
#include "model/collectives/collective_costs.hpp"
#include "model/machine/cluster_template.hpp"
#include "model/machine/gpu.hpp"
#include "model/machine/symmetry.hpp"
#include "model/machine/topology.hpp"
#include "model/text/document.hpp"

namespace moeplan {

struct CollectiveModels;  // model/collectives/collective_models.hpp

struct ClusterSpec {
  std::string name;
  GpuSpec gpu;
  std::variant<ClusterTemplate, Topology> machine;
  CollectiveCosts collectives;
  std::shared_ptr<const CollectiveModels> collective_models = {};  // in proportion to the links; null: none
  Seconds collective_startup;  // software start-up time of a collective that is not measured
  Seconds message_overhead;    // serial cost at the sender per message of an all-to-all that is not measured
  /// The rate at which a rank sums a reduce-scatter or all-reduce that is not measured, in bytes of its message, after
  /// they have arrived. None: while they arrive, as NCCL's kernels do.
  std::optional<BytesPerSecond> reduction_bandwidth = {};
  std::int64_t ranks_per_gpu = 1;  // more than 1: several ranks of a job share each GPU, for checks on few GPUs
  bool operator==(const ClusterSpec&) const = default;
};

/// Reads a cluster whose files are embedded (embed_files). `collectives:` is a list of measured alpha-beta entries
/// (CollectiveKey), or the models of a file in configs/collectives; next to a list, `collective_models:` may hold such
/// models, which price groups of shapes that the list does not have. An entry without `alpha` (its messages were too
/// large to determine it) has the start-up time of a collective that is not measured. Raises InputError with every
/// error found, including a beta that no cluster can reach.
[[nodiscard]] ClusterSpec read_cluster(const Node& document);

/// Replaces `gpu: NAME` by the content of NAME.yaml from the first directory of `gpu_dirs` that has it (a path with a
/// slash is relative to the file that contains it), its `operators: NAME` likewise (embed_operators), and `collectives:
/// NAME` by that of NAME.yaml from the folder `collectives` next to one of `gpu_dirs` (`none` stays), so that the
/// document is self-contained. Raises InputError.
void embed_files(Node& cluster, const std::vector<std::filesystem::path>& gpu_dirs);

/// The hardware of a job: the topology, and the GPU of each rank (node by node: rank r uses GPU r / ranks_per_gpu).
///
/// Ranks that share a GPU share its SMs: those that compute at the same time each get an equal part of the GPU's
/// throughput (processor sharing, kernel launches included: assumed), and all of them are slowed down while any of them
/// communicates. Transfers between them are copies in GPU memory: a link of the GPU to itself with half of the
/// bandwidth of memory-bound kernels, since a copied byte is read and written. The ranks of a GPU together must fit
/// into its memory.
struct Cluster {
  std::string name;
  GpuSpec gpu;
  Topology topology;
  std::vector<VertexId> gpu_of_rank;
  std::vector<int> node_of_rank;
  CollectiveCosts collectives;
  std::shared_ptr<const CollectiveModels> collective_models = {};
  Seconds collective_startup;
  Seconds message_overhead;
  std::optional<BytesPerSecond> reduction_bandwidth = {};
  Routes routes;
  /// Numbers of consecutive ranks that share a PCIe switch, a host bridge, a NIC, a node or a leaf group. Empty if
  /// unknown (explicit topologies); then no symmetry is searched for.
  std::vector<std::int64_t> natural_boundaries{};
  std::int64_t ranks_per_gpu = 1;      // consecutive ranks; the last GPU may have fewer
  std::vector<LinkId> memory_links{};  // by GPU, if ranks share GPUs
  SymmetryCache symmetries{};
  RouteCache cached_routes{};

  [[nodiscard]] std::int64_t world_size() const { return static_cast<std::int64_t>(gpu_of_rank.size()); }
  [[nodiscard]] std::int64_t gpus() const { return (world_size() + ranks_per_gpu - 1) / ranks_per_gpu; }
  /// The part of its GPU's memory that a rank may use.
  [[nodiscard]] Bytes memory_per_rank() const;
  /// The route from one rank to another: Routes::between their GPUs, or a copy within one GPU.
  [[nodiscard]] Route route(RankId from, RankId to) const;
  /// The same, computed once for each pair, since every candidate of a search asks for the same ones.
  [[nodiscard]] const Route& cached_route(RankId from, RankId to) const {
    const Route* known = cached_routes.find(from, to);
    return known ? *known : cached_routes.add(from, to, route(from, to));
  }
  [[nodiscard]] RankedTopology ranked_topology() const {
    return {topology, routes, gpu_of_rank, node_of_rank, natural_boundaries};
  }
  /// Number of consecutive ranks that share a node, if it is the same for every node; otherwise 1.
  [[nodiscard]] std::int64_t ranks_per_node() const;
};

/// symmetric_view() of the cluster (symmetry.hpp), computed once for each query.
[[nodiscard]] const SymmetricView* symmetric_view(const Cluster& cluster, const SymmetryQuery& query);
/// shifted_links() of the cluster (symmetry.hpp), computed once for each shift.
[[nodiscard]] const LinkImages* shifted_links(const Cluster& cluster, std::int64_t shift);

/// Builds the cluster of the first `world` ranks (default: all ranks of the existing GPUs), at most 1,048,576. A
/// template with a fabric is extended to as many whole nodes as needed; explicit topologies and templates without a
/// fabric are not. Raises InputError if there are too few GPUs or not all of them are connected.
[[nodiscard]] Cluster build_cluster(const ClusterSpec& spec, std::optional<std::int64_t> world);

}  // namespace moeplan
