#include "model/machine/sub_cluster.hpp"

#include <set>

namespace moeplan {

SubCluster sub_cluster(const Cluster& cluster, std::int64_t first, std::int64_t count) {
  const auto begin = static_cast<std::size_t>(first), end = static_cast<std::size_t>(first + count);
  std::set<int> nodes(cluster.node_of_rank.begin() + static_cast<std::ptrdiff_t>(begin),
                      cluster.node_of_rank.begin() + static_cast<std::ptrdiff_t>(end));
  Topology topology;
  std::vector<std::int32_t> number(cluster.topology.vertices.size(), -1);
  for (std::size_t v = 0; v < number.size(); ++v) {
    const Vertex& vertex = cluster.topology.vertices[v];
    if (vertex.node && !nodes.contains(*vertex.node)) continue;
    number[v] = static_cast<std::int32_t>(topology.vertices.size());
    topology.vertices.push_back(vertex);
  }
  std::vector<LinkId> links;
  for (std::size_t l = 0; l < cluster.topology.links.size(); ++l) {
    Link link = cluster.topology.links[l];
    const std::int32_t from = number[link.from.index()], to = number[link.to.index()];
    if (from < 0 || to < 0) continue;
    link.from = VertexId(from);
    link.to = VertexId(to);
    topology.links.push_back(link);
    links.push_back(LinkId(l));
  }
  std::vector<LinkId> memory_links;
  if (!cluster.memory_links.empty()) {
    std::vector<std::int32_t> own(cluster.topology.links.size(), -1);
    for (std::size_t l = 0; l < links.size(); ++l) own[links[l].index()] = static_cast<std::int32_t>(l);
    const auto shared_by = static_cast<std::size_t>(cluster.ranks_per_gpu);
    for (std::size_t g = begin / shared_by; g * shared_by < end; ++g) {
      memory_links.push_back(LinkId(own[cluster.memory_links[g].index()]));
    }
  }
  std::vector<VertexId> gpus;
  for (std::size_t r = begin; r < end; ++r) gpus.push_back(VertexId(number[cluster.gpu_of_rank[r].index()]));
  Routes routes(topology);
  return {{.name = cluster.name,
           .gpu = cluster.gpu,
           .topology = std::move(topology),
           .gpu_of_rank = std::move(gpus),
           .node_of_rank = {cluster.node_of_rank.begin() + static_cast<std::ptrdiff_t>(begin),
                            cluster.node_of_rank.begin() + static_cast<std::ptrdiff_t>(end)},
           .collectives = cluster.collectives,
           .collective_models = cluster.collective_models,
           .collective_startup = cluster.collective_startup,
           .message_overhead = cluster.message_overhead,
           .routes = std::move(routes),
           .natural_boundaries = cluster.natural_boundaries,
           .ranks_per_gpu = cluster.ranks_per_gpu,
           .memory_links = std::move(memory_links)},
          std::move(links)};
}

bool sub_clusters_are_equivalent(const Cluster& cluster, std::int64_t count) {
  if (count == cluster.world_size()) return true;
  SymmetryQuery query;
  if (count > 1) query.boundaries.push_back(count);
  const SymmetricView* view = symmetric_view(cluster, query);
  return view && view->representatives <= count;
}

}  // namespace moeplan
