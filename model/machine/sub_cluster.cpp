#include "model/machine/sub_cluster.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "model/machine/routes_of_gpu.hpp"

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
  topology.vertices.shrink_to_fit();
  topology.links.shrink_to_fit();
  links.shrink_to_fit();
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
           .reduction_bandwidth = cluster.reduction_bandwidth,
           .routes = std::move(routes),
           .natural_boundaries = cluster.natural_boundaries,
           .ranks_per_gpu = cluster.ranks_per_gpu,
           .memory_links = std::move(memory_links)},
          std::move(links)};
}

namespace {

/// Whether the nodes of ranks begin and end at the same positions.
bool share_nodes_alike(const std::vector<int>& a, const std::vector<int>& b) {
  std::map<int, int> image, origin;
  for (std::size_t r = 0; r < a.size(); ++r) {
    if (image.try_emplace(a[r], b[r]).first->second != b[r]) return false;
    if (origin.try_emplace(b[r], a[r]).first->second != a[r]) return false;
  }
  return true;
}

/// A one-to-one map between the links of two clusters that grows with the routes that it is shown.
class LinkMap {
 public:
  LinkMap(const Cluster& a, const Cluster& b)
      : a_(a.topology.links), b_(b.topology.links), image_(a_.size(), LinkId(-1)), origin_(b_.size(), LinkId(-1)) {}

  /// Whether the routes correspond under the map, after it has taken in their links.
  bool take_in(const Route& a, const Route& b) {
    return a.latency == b.latency && std::equal(a.links.begin(), a.links.end(), b.links.begin(), b.links.end(),
                                                [&](const RouteLink& x, const RouteLink& y) {
                                                  return x.share == y.share && match(x.link, y.link);
                                                });
  }
  [[nodiscard]] std::vector<LinkId> images() && { return std::move(image_); }

 private:
  bool match(LinkId x, LinkId y) {
    LinkId &image = image_[x.index()], &origin = origin_[y.index()];
    if (image.value() < 0 && origin.value() < 0 && a_[x.index()].bandwidth == b_[y.index()].bandwidth) {
      image = y;
      origin = x;
    }
    return image == y && origin == x;
  }

  const std::vector<Link>&a_, &b_;
  std::vector<LinkId> image_, origin_;
};

/// The routes of a rank to others.
class RankRoutes {
 public:
  RankRoutes(const Cluster& cluster, RankId rank)
      : cluster_(cluster),
        rank_(rank),
        of_gpu_(cluster.topology, cluster.routes, cluster.gpu_of_rank[rank.index()], RoutesOfGpu::Direction::From) {}

  [[nodiscard]] Route to(RankId other) const {
    const VertexId gpu = cluster_.gpu_of_rank[other.index()];
    return gpu == cluster_.gpu_of_rank[rank_.index()] ? cluster_.route(rank_, other) : of_gpu_.with(gpu);
  }

 private:
  const Cluster& cluster_;
  RankId rank_;
  RoutesOfGpu of_gpu_;
};

}  // namespace

std::optional<std::vector<LinkId>> corresponding_links(const Cluster& a, const Cluster& b) {
  if (a.world_size() != b.world_size() || a.ranks_per_gpu != b.ranks_per_gpu) return std::nullopt;
  if (!share_nodes_alike(a.node_of_rank, b.node_of_rank)) return std::nullopt;
  LinkMap links(a, b);
  const auto ranks = static_cast<std::int32_t>(a.world_size());
  for (std::int32_t from = 0; from < ranks; ++from) {
    const RankRoutes of_a(a, RankId(from)), of_b(b, RankId(from));
    for (std::int32_t to = 0; to < ranks; ++to) {
      if (from != to && !links.take_in(of_a.to(RankId(to)), of_b.to(RankId(to)))) return std::nullopt;
    }
  }
  return std::move(links).images();
}

const SymmetricView* view_of_ranges(const Cluster& cluster, std::int64_t count) {
  if (count == cluster.world_size()) return nullptr;
  SymmetryQuery query;
  if (count > 1) query.boundaries.push_back(count);
  const SymmetricView* view = symmetric_view(cluster, query);
  return view && view->representatives <= count ? view : nullptr;
}

bool sub_clusters_are_equivalent(const Cluster& cluster, std::int64_t count) {
  return count == cluster.world_size() || view_of_ranges(cluster, count);
}

}  // namespace moeplan
