#include "sim/traffic/networks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "model/base/to_index.hpp"
#include "sim/traffic/block_routes.hpp"

namespace moeplan::sim {

namespace {

using Index = Networks::Index;

constexpr std::size_t kMostNear = std::size_t{1} << 23;

Index root_of(std::vector<Index>& parent, Index v) {
  while (parent[to_index(v)] != v) {
    parent[to_index(v)] = parent[to_index(parent[to_index(v)])];
    v = parent[to_index(v)];
  }
  return v;
}

[[noreturn]] void too_many_near() {
  throw NotFactored{fmt::format("more than {} pairs of GPUs are joined by more than one network", kMostNear)};
}

}  // namespace

Networks::Networks(const Cluster& cluster) : cluster_(cluster), topology_(cluster.topology) {
  std::vector<Index> parent(topology_.vertices.size());
  std::iota(parent.begin(), parent.end(), 0);
  for (const Link& l : topology_.links) {
    if (!is_gpu(l.from) && !is_gpu(l.to)) {
      parent[to_index(root_of(parent, l.from.value()))] = root_of(parent, l.to.value());
    }
  }
  network_.assign(parent.size(), -1);
  std::vector<std::int64_t> vertices(parent.size(), 0);
  for (std::size_t v = 0; v < parent.size(); ++v) {
    if (is_gpu(VertexId(v))) continue;
    network_[v] = root_of(parent, static_cast<Index>(v));
    ++vertices[to_index(network_[v])];
  }
  rank_of_.assign(parent.size(), -1);
  for (std::size_t r = 0; r < cluster_.gpu_of_rank.size(); ++r) {
    rank_of_[cluster_.gpu_of_rank[r].index()] = static_cast<Index>(r);
  }
  for (const Link& l : topology_.links) {
    if (is_gpu(l.from) == is_gpu(l.to)) continue;
    const Index gpu = is_gpu(l.from) ? l.from.value() : l.to.value();
    const Index other = is_gpu(l.from) ? l.to.value() : l.from.value();
    if (rank_of_[to_index(gpu)] >= 0) members_.emplace_back(network_[to_index(other)], rank_of_[to_index(gpu)]);
  }
  std::sort(members_.begin(), members_.end());
  members_.erase(std::unique(members_.begin(), members_.end()), members_.end());
  for (std::size_t i = 0; i < members_.size();) {
    std::size_t end = i;
    while (end < members_.size() && members_[end].first == members_[i].first) ++end;
    const Index network = members_[i].first;
    const bool has_all = end - i == cluster_.gpu_of_rank.size();
    if (has_all && (fabric_ < 0 || vertices[to_index(network)] > vertices[to_index(fabric_)])) fabric_ = network;
    i = end;
  }
  if (fabric_ < 0) throw NotFactored{"no network of switches joins all GPUs"};
}

Networks::Index Networks::network_of(LinkId link) const {
  const Link& l = topology_.links[link.index()];
  return std::max(network_[l.from.index()], network_[l.to.index()]);
}

NearFlows Networks::near_flows() const {
  std::vector<std::pair<Index, Index>> pairs;
  for (std::size_t i = 0; i < members_.size();) {
    std::size_t end = i;
    while (end < members_.size() && members_[end].first == members_[i].first) ++end;
    if (members_[i].first != fabric_) {
      if (pairs.size() + (end - i) * (end - i) > kMostNear) too_many_near();
      for (std::size_t a = i; a < end; ++a) {
        for (std::size_t b = i; b < end; ++b) {
          if (a != b) pairs.emplace_back(members_[a].second, members_[b].second);
        }
      }
    }
    i = end;
  }
  for (const Link& l : topology_.links) {
    const Index src = rank_of_[l.from.index()], dst = rank_of_[l.to.index()];
    if (src >= 0 && dst >= 0) pairs.emplace_back(src, dst);
  }
  if (pairs.size() > kMostNear) too_many_near();
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  NearFlows near;
  for (const auto& [src, dst] : pairs) add_near(src, dst, near);
  std::sort(near.flows.begin(), near.flows.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.network, a.src, a.dst) < std::tuple(b.network, b.src, b.dst);
  });
  return near;
}

void Networks::add_near(Index src, Index dst, NearFlows& near) const {
  const Route route = cluster_.routes.between(cluster_.gpu_of_rank[to_index(src)], cluster_.gpu_of_rank[to_index(dst)]);
  const auto in_fabric = [&](const RouteLink& l) { return network_of(l.link) == fabric_; };
  const auto fabric_links = std::count_if(route.links.begin(), route.links.end(), in_fabric);
  if (fabric_links == static_cast<std::ptrdiff_t>(route.links.size())) return;
  if (fabric_links > 0) throw NotFactored{"a route is split between two networks"};
  Index network = network_of(route.links.front().link);
  // Parallel direct links of a pair form a network of their own, numbered after all vertices.
  if (network < 0) network = static_cast<Index>(topology_.vertices.size()) + route.links.front().link.value();
  for (const RouteLink& l : route.links) {
    const Index other = network_of(l.link);
    if (other >= 0 && other != network) throw NotFactored{"a route is split between two networks"};
  }
  near.flows.push_back({RankId(src), RankId(dst), network, static_cast<std::uint32_t>(near.uses.size()),
                        static_cast<std::uint32_t>(route.links.size())});
  for (const RouteLink& l : route.links) near.uses.push_back({ResourceId(l.link.value()), l.share});
}

}  // namespace moeplan::sim
