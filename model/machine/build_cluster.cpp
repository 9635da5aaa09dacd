#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "model/base/whole_numbers.hpp"
#include "model/machine/cluster.hpp"
#include "model/machine/cluster_template.hpp"

namespace moeplan {

namespace {

[[noreturn]] void fail(std::string message) { throw InputError({{}, "", std::move(message)}); }

void check_range(std::int64_t world) {
  if (world < 1 || world > kMostWorld)
    fail(fmt::format("world {} is out of range; expected 1 to {}", world, kMostWorld));
}

/// The requested ranks, and the GPUs that they need of those that `exist`.
struct Wanted {
  std::int64_t ranks;
  std::int64_t gpus;
};

Wanted wanted_of(std::int64_t exist, std::optional<std::int64_t> world, std::int64_t ranks_per_gpu) {
  const std::int64_t ranks = world.value_or(exist * ranks_per_gpu);
  check_range(ranks);
  return {ranks, ceil_div(ranks, ranks_per_gpu)};
}

Topology grown(const ClusterTemplate& machine, std::optional<std::int64_t> world, std::int64_t ranks_per_gpu) {
  const std::int64_t exist = machine.nodes * machine.gpus_per_node;
  const auto [ranks, gpus] = wanted_of(exist, world, ranks_per_gpu);
  if (gpus > exist && !machine.fabric) {
    fail(fmt::format("world {} needs {} GPUs; the cluster has {} and no fabric to grow by", ranks, gpus, exist));
  }
  return expand(machine, ceil_div(gpus, machine.gpus_per_node));
}

Topology grown(const Topology& machine, std::optional<std::int64_t> world, std::int64_t ranks_per_gpu) {
  const std::int64_t exist = std::count_if(machine.vertices.begin(), machine.vertices.end(),
                                           [](const Vertex& v) { return v.kind == VertexKind::Gpu; });
  const auto [ranks, gpus] = wanted_of(exist, world, ranks_per_gpu);
  if (gpus > exist) {
    fail(fmt::format("world {} needs {} GPUs; the cluster has {}, and explicit vertices do not grow", ranks, gpus,
                     exist));
  }
  return machine;
}

/// GPUs ordered by node; within a node in the order listed.
std::vector<VertexId> gpus_in_order(const Topology& topology) {
  std::vector<VertexId> gpus;
  for (std::size_t i = 0; i < topology.vertices.size(); ++i) {
    if (topology.vertices[i].kind == VertexKind::Gpu) gpus.emplace_back(i);
  }
  std::stable_sort(gpus.begin(), gpus.end(), [&](VertexId a, VertexId b) {
    return topology.vertices[a.index()].node < topology.vertices[b.index()].node;
  });
  return gpus;
}

std::vector<std::int64_t> boundaries_of(const ClusterTemplate& machine) {
  const std::int64_t gpus = machine.gpus_per_node;
  std::vector<std::int64_t> out{gpus};
  const PcieTree* pcie = std::get_if<PcieTree>(&machine.intra_node);
  if (const auto* mesh = std::get_if<NvlinkMesh>(&machine.intra_node)) pcie = &mesh->pcie;
  if (pcie) {
    const std::int64_t on_switch = std::max<std::int64_t>(1, pcie->gpus_per_switch);
    out.push_back(on_switch);
    out.push_back(std::min(gpus, on_switch * pcie->switches_per_bridge));
  }
  if (machine.fabric) {
    if (machine.fabric->nics_per_node > 0 && machine.fabric->nics_per_node < gpus) {
      out.push_back(gpus / machine.fabric->nics_per_node);
    }
    if (machine.fabric->kind != FabricKind::SingleSwitch) out.push_back(gpus * machine.fabric->nodes_per_leaf);
  }
  return out;
}

}  // namespace

std::int64_t RankedTopology::ranks_per_node() const {
  std::int64_t first = 0;
  while (first < world_size() && node_of_rank[static_cast<std::size_t>(first)] == node_of_rank[0]) ++first;
  for (std::int64_t r = 0; r < world_size(); ++r) {
    const bool begins = r % first == 0;
    const bool parts =
        r > 0 && node_of_rank[static_cast<std::size_t>(r)] != node_of_rank[static_cast<std::size_t>(r - 1)];
    if (r > 0 && begins != parts) return 1;
  }
  return world_size() % first == 0 ? first : 1;
}

std::int64_t Cluster::ranks_per_node() const { return ranked_topology().ranks_per_node(); }

const SymmetricView* symmetric_view(const Cluster& cluster, const SymmetryQuery& query) {
  return symmetric_view(cluster.ranked_topology(), cluster.symmetries, query);
}

const LinkImages* shifted_links(const Cluster& cluster, std::int64_t shift) {
  return shifted_links(cluster.ranked_topology(), cluster.symmetries, shift);
}

Bytes Cluster::memory_per_rank() const {
  return gpu.memory * (1.0 / static_cast<double>(std::min(ranks_per_gpu, world_size())));
}

Route Cluster::route(RankId from, RankId to) const {
  const VertexId a = gpu_of_rank[from.index()], b = gpu_of_rank[to.index()];
  if (a != b || from == to || memory_links.empty()) return routes.between(a, b);
  return {.links = {{memory_links[from.index() / static_cast<std::size_t>(ranks_per_gpu)], 1.0}},
          .latency = Seconds(0)};
}

Cluster build_cluster(const ClusterSpec& spec, std::optional<std::int64_t> world) {
  std::optional<ClusterTemplate> used;
  if (const auto* machine = std::get_if<ClusterTemplate>(&spec.machine))
    used = used_part(*machine, ceil_div(world.value_or(0), spec.ranks_per_gpu));
  Topology topology = used ? grown(*used, world, spec.ranks_per_gpu)
                           : grown(std::get<Topology>(spec.machine), world, spec.ranks_per_gpu);
  std::vector<VertexId> gpus = gpus_in_order(topology);
  if (world) gpus.resize(static_cast<std::size_t>(ceil_div(*world, spec.ranks_per_gpu)));
  if (const auto pair = unconnected_pair(topology, gpus)) {
    const auto name = [&](VertexId v) { return in_quotes(topology.vertices[v.index()].name); };
    fail(fmt::format("GPU {} cannot reach GPU {}: no path of links joins them (GPUs do not forward)", name(pair->first),
                     name(pair->second)));
  }
  std::vector<LinkId> memory_links;
  std::vector<VertexId> gpu_of_rank = gpus;
  if (spec.ranks_per_gpu > 1) {
    gpu_of_rank.clear();
    const BytesPerSecond copies = std::max(spec.gpu.hbm_bandwidth * (spec.gpu.memory_efficiency / 2),
                                           BytesPerSecond(std::numeric_limits<double>::min()));
    for (const VertexId g : gpus) {
      memory_links.emplace_back(topology.links.size());
      topology.links.push_back({g, g, copies, Seconds(0), LinkTier::Memory});
      gpu_of_rank.insert(gpu_of_rank.end(), static_cast<std::size_t>(spec.ranks_per_gpu), g);
    }
    if (world) gpu_of_rank.resize(static_cast<std::size_t>(*world));
  }
  std::vector<int> nodes;
  for (const VertexId g : gpu_of_rank) nodes.push_back(topology.vertices[g.index()].node.value_or(0));
  Routes routes(topology);
  // Rotating the ranks of one GPU is not a symmetry of the graph, so no symmetry is searched for.
  std::vector<std::int64_t> boundaries;
  if (spec.ranks_per_gpu == 1 && used) boundaries = boundaries_of(*used);
  return {.name = spec.name,
          .gpu = spec.gpu,
          .topology = std::move(topology),
          .gpu_of_rank = std::move(gpu_of_rank),
          .node_of_rank = std::move(nodes),
          .collectives = spec.collectives,
          .collective_models = spec.collective_models,
          .collective_startup = spec.collective_startup,
          .message_overhead = spec.message_overhead,
          .reduction_bandwidth = spec.reduction_bandwidth,
          .routes = std::move(routes),
          .natural_boundaries = std::move(boundaries),
          .ranks_per_gpu = spec.ranks_per_gpu,
          .memory_links = std::move(memory_links)};
}

}  // namespace moeplan
