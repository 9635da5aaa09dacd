#include "sim/route_rows.hpp"

#include "model/specs/cluster.hpp"

namespace moeplan {

namespace {

constexpr std::size_t kMostBytes = std::size_t{256} << 20;

}  // namespace

RouteRows::RouteRows(const Cluster& cluster) : cluster_(cluster), rows_(cluster.gpu_of_rank.size()) {
  const Topology& topology = cluster.topology;
  first_out_.assign(topology.vertices.size() + 1, 0);
  for (const Link& l : topology.links) ++first_out_[l.from.index() + 1];
  for (std::size_t v = 0; v < topology.vertices.size(); ++v) first_out_[v + 1] += first_out_[v];
  out_.resize(topology.links.size());
  std::vector<std::size_t> next(first_out_.begin(), first_out_.end() - 1);
  for (std::size_t l = 0; l < topology.links.size(); ++l) out_[next[topology.links[l].from.index()]++] = LinkId(l);
  reached_.resize(topology.vertices.size());
}

TrafficNetwork RouteRows::network() {
  TrafficNetwork network;
  for (const Link& link : cluster_.topology.links) network.capacity.push_back(link.bandwidth.value());
  network.route = [this](RankId src, RankId dst, std::vector<FlowUse>& uses) { append(src, dst, uses); };
  return network;
}

void RouteRows::append(RankId src, RankId dst, std::vector<FlowUse>& uses) {
  Row& row = rows_[src.index()];
  if (row.first.empty() && bytes_ < kMostBytes) fill(src, row);
  if (row.first.empty() || row.is_split[dst.index()]) {
    const Route route = cluster_.routes.between(cluster_.gpu_of_rank[src.index()], cluster_.gpu_of_rank[dst.index()]);
    for (const RouteLink& l : route.links) uses.push_back({ResourceId(l.link.value()), l.share});
    return;
  }
  for (std::uint32_t i = row.first[dst.index()]; i < row.first[dst.index() + 1]; ++i) {
    uses.push_back({ResourceId(row.link[i].value()), 1.0});
  }
}

void RouteRows::search(VertexId source) {
  reached_.assign(reached_.size(), {});
  reached_[source.index()].hops = 0;
  queue_ = {source};
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const VertexId u = queue_[i];
    const Reached from = reached_[u.index()];
    if (u != source && cluster_.topology.vertices[u.index()].kind == VertexKind::Gpu) continue;  // does not forward
    for (std::size_t k = first_out_[u.index()]; k < first_out_[u.index() + 1]; ++k) {
      const VertexId v = cluster_.topology.links[out_[k].index()].to;
      Reached& to = reached_[v.index()];
      if (to.hops < 0) {
        to = {from.hops + 1, out_[k], from.is_several};
        queue_.push_back(v);
      } else if (to.hops == from.hops + 1) {
        to.is_several = true;
      }
    }
  }
}

void RouteRows::fill(RankId src, Row& row) {
  const VertexId source = cluster_.gpu_of_rank[src.index()];
  search(source);
  const std::size_t ranks = rows_.size();
  row.first.reserve(ranks + 1);
  row.is_split.assign(ranks, false);
  row.first.push_back(0);
  for (std::size_t r = 0; r < ranks; ++r) {
    const VertexId end = cluster_.gpu_of_rank[r];
    const Reached& at = reached_[end.index()];
    if (at.hops > 0 && at.is_several) {
      row.is_split[r] = true;
    } else if (at.hops > 0) {
      row.link.resize(row.link.size() + static_cast<std::size_t>(at.hops));
      std::size_t i = row.link.size();
      for (VertexId v = end; v != source; v = cluster_.topology.links[row.link[i].index()].from) {
        row.link[--i] = reached_[v.index()].by;
      }
    }
    row.first.push_back(static_cast<std::uint32_t>(row.link.size()));
  }
  bytes_ += row.first.size() * sizeof(row.first[0]) + row.link.size() * sizeof(row.link[0]);
}

}  // namespace moeplan
