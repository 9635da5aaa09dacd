#include "model/machine/routes_from.hpp"

#include <algorithm>

namespace moeplan {

RoutesFrom::RoutesFrom(const Topology& topology, const Routes& routes, VertexId source)
    : topology_(topology), routes_(routes), source_(source), reached_(topology.vertices.size()) {
  const Topology& t = topology_;
  std::vector<std::size_t> first(t.vertices.size() + 2, 0);
  for (const Link& l : t.links) ++first[l.from.index() + 2];
  for (std::size_t v = 2; v < first.size(); ++v) first[v] += first[v - 1];
  std::vector<LinkId> out(t.links.size());
  for (std::size_t l = 0; l < t.links.size(); ++l) out[first[t.links[l].from.index() + 1]++] = LinkId(l);
  reached_[source_.index()].hops = 0;
  std::vector<VertexId> queue{source_};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const VertexId u = queue[i];
    if (u != source_ && t.vertices[u.index()].kind == VertexKind::Gpu) continue;  // does not forward
    const Reached from = reached_[u.index()];
    for (std::size_t k = first[u.index()]; k < first[u.index() + 1]; ++k) {
      const VertexId v = t.links[out[k].index()].to;
      Reached& to = reached_[v.index()];
      if (to.hops < 0) {
        to = {from.hops + 1, out[k], from.is_several};
        queue.push_back(v);
      } else if (to.hops == from.hops + 1) {
        to.is_several = true;
      }
    }
  }
}

Route RoutesFrom::to(VertexId end) const {
  if (reached_[end.index()].is_several) return routes_.between(source_, end);
  Route route{.links = {}, .latency = Seconds(0)};
  if (reached_[end.index()].hops < 0) return route;
  for (VertexId v = end; v != source_; v = topology_.links[route.links.back().link.index()].from) {
    route.links.push_back({reached_[v.index()].by, 1.0});
  }
  std::reverse(route.links.begin(), route.links.end());
  for (const RouteLink& l : route.links) route.latency += topology_.links[l.link.index()].latency;
  return route;
}

}  // namespace moeplan
