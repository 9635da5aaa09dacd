#include "model/machine/routes_of_gpu.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <unordered_map>
#include <utility>

namespace moeplan {

namespace {

using Index = std::int32_t;

struct Hash {
  const std::vector<Index>& orbit;
  std::size_t operator()(const Route* route) const {
    auto hash = std::bit_cast<std::uint64_t>(route->latency.value());
    const auto add = [&](std::uint64_t value) {
      hash = (std::rotl(hash, 5) ^ value) * 0x9E3779B97F4A7C15U;  // 2^64 / golden ratio, odd
    };
    for (const RouteLink& l : route->links) {
      add(static_cast<std::uint64_t>(orbit[l.link.index()]));
      add(std::bit_cast<std::uint64_t>(l.share));
    }
    return hash ^ (hash >> 32U);
  }
};

struct OfOneKind {
  const std::vector<Index>& orbit;
  bool operator()(const Route* a, const Route* b) const {
    return a->latency == b->latency &&
           std::ranges::equal(a->links, b->links, [&](const RouteLink& x, const RouteLink& y) {
             return x.share == y.share && orbit[x.link.index()] == orbit[y.link.index()];
           });
  }
};

}  // namespace

RoutesOfGpu::RoutesOfGpu(const Topology& topology, const Routes& routes, VertexId gpu, Direction direction)
    : topology_(topology), routes_(routes), gpu_(gpu), direction_(direction), reached_(topology.vertices.size()) {
  const Adjacency& links = direction == Direction::From ? routes.leaving() : routes.entering();
  reached_[gpu_.index()].hops = 0;
  std::vector<VertexId> queue{gpu_};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const VertexId u = queue[i];
    if (u != gpu_ && topology.vertices[u.index()].kind == VertexKind::Gpu) continue;  // does not forward
    const Reached from = reached_[u.index()];
    for (const Adjacency::Arc& arc : links.of(u.value())) {
      Reached& to = reached_[static_cast<std::size_t>(arc.other)];
      if (to.hops < 0) {
        to = {from.hops + 1, arc.link, from.is_several};
        queue.emplace_back(arc.other);
      } else if (to.hops == from.hops + 1) {
        to.is_several = true;
      }
    }
  }
}

Route RoutesOfGpu::with(VertexId other) const {
  const bool leaves = direction_ == Direction::From;
  if (reached_[other.index()].is_several) return leaves ? routes_.between(gpu_, other) : routes_.between(other, gpu_);
  Route route{.links = {}, .latency = Seconds(0)};
  if (reached_[other.index()].hops < 0) return route;
  for (VertexId v = other; v != gpu_;) {
    const LinkId by = reached_[v.index()].by;
    route.links.push_back({by, 1.0});
    const Link& link = topology_.links[by.index()];
    v = leaves ? link.from : link.to;
  }
  if (leaves) std::reverse(route.links.begin(), route.links.end());
  for (const RouteLink& l : route.links) route.latency += topology_.links[l.link.index()].latency;
  return route;
}

DistinctRoutes distinct_routes(const std::vector<std::int32_t>& orbit, std::span<const std::vector<Route>> from) {
  DistinctRoutes out;
  const OfOneKind of_one_kind{orbit};
  std::unordered_map<const Route*, Index, Hash, OfOneKind> numbers(16, Hash{orbit}, of_one_kind);
  for (const std::vector<Route>& routes : from) {
    std::vector<Index>& number = out.number.emplace_back();
    number.reserve(routes.size());
    const Route* before = nullptr;  // to the rank before, often of the same kind
    for (const Route& route : routes) {
      if (route.links.empty()) {
        number.push_back(-1);
      } else if (before && of_one_kind(before, &route)) {
        number.push_back(number.back());
      } else {
        const auto [it, is_new] = numbers.try_emplace(&route, static_cast<Index>(out.routes.size()));
        if (is_new) out.routes.push_back(&route);
        number.push_back(it->second);
      }
      before = route.links.empty() ? nullptr : &route;
    }
  }
  return out;
}

}  // namespace moeplan
