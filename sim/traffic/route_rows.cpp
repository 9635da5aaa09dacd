#include "sim/traffic/route_rows.hpp"

#include <algorithm>

#include "model/machine/cluster.hpp"

namespace moeplan::sim {

namespace {

constexpr int kMostTimesFull = 64;  // times 32 MiB: 2 GiB of rows, some seconds of searching

}  // namespace

RouteRows::RouteRows(const Cluster& cluster, std::size_t most_bytes) : cluster_(cluster), most_bytes_(most_bytes) {
  const Topology& topology = cluster.topology;
  first_out_.assign(topology.vertices.size() + 1, 0);
  for (const Link& l : topology.links) ++first_out_[l.from.index() + 1];
  for (std::size_t v = 0; v < topology.vertices.size(); ++v) first_out_[v + 1] += first_out_[v];
  out_.resize(topology.links.size());
  std::vector<std::size_t> next(first_out_.begin(), first_out_.end() - 1);
  for (std::size_t l = 0; l < topology.links.size(); ++l) out_[next[topology.links[l].from.index()]++] = LinkId(l);
  reached_.resize(topology.vertices.size());
  find_chains();
  find_exits();
}

TrafficNetwork RouteRows::network() {
  TrafficNetwork network;
  for (const Link& link : cluster_.topology.links) network.capacity.push_back(link.bandwidth.value());
  network.route = [this](RankId src, RankId dst, std::vector<FlowUse>& uses) { append(src, dst, uses); };
  return network;
}

/// The link after `link` in its chain.
std::optional<LinkId> RouteRows::next_in_chain(LinkId link) const {
  const std::vector<Link>& links = cluster_.topology.links;
  const VertexId v = links[link.index()].to;
  if (!passes_[v.index()]) return std::nullopt;
  const LinkId first = out_[first_out_[v.index()]];
  return links[first.index()].to == links[link.index()].from ? out_[first_out_[v.index()] + 1] : first;
}

void RouteRows::find_chains() {
  const Topology& topology = cluster_.topology;
  const std::vector<Link>& links = topology.links;
  std::vector<std::vector<VertexId>> neighbours_in(topology.vertices.size());
  for (const Link& l : links) neighbours_in[l.to.index()].push_back(l.from);
  passes_.assign(topology.vertices.size(), false);
  for (std::size_t v = 0; v < topology.vertices.size(); ++v) {
    const std::vector<VertexId>& in = neighbours_in[v];
    if (topology.vertices[v].kind == VertexKind::Gpu || in.size() != 2 || first_out_[v + 1] != first_out_[v] + 2) {
      continue;
    }
    const VertexId a = links[out_[first_out_[v]].index()].to;
    const VertexId b = links[out_[first_out_[v] + 1].index()].to;
    passes_[v] = a != b && ((in[0] == a && in[1] == b) || (in[0] == b && in[1] == a));
  }
  is_left_out_.assign(links.size(), false);
  for (std::size_t l = 0; l < links.size(); ++l) {
    if (passes_[links[l].from.index()]) continue;  // not the first of its chain
    LinkId narrowest(l);
    for (auto next = next_in_chain(narrowest); next; next = next_in_chain(*next)) {
      const bool is_narrower = links[next->index()].bandwidth < links[narrowest.index()].bandwidth;
      is_left_out_[is_narrower ? narrowest.index() : next->index()] = true;
      if (is_narrower) narrowest = *next;
    }
  }
}

void RouteRows::find_exits() {
  const Topology& topology = cluster_.topology;
  std::vector<std::int32_t> row_of(topology.vertices.size(), -1);
  for (const VertexId gpu : cluster_.gpu_of_rank) {
    first_exit_.push_back(exits_.size());
    for (std::size_t k = first_out_[gpu.index()]; k < first_out_[gpu.index() + 1]; ++k) {
      LinkId last = out_[k];
      Exit exit{last, 1, 0};
      for (auto next = next_in_chain(last); next; next = next_in_chain(*next)) {
        last = *next;
        ++exit.hops;
        if (!is_left_out_[last.index()]) exit.link = last;
      }
      const VertexId end = topology.links[last.index()].to;
      if (row_of[end.index()] < 0) {
        row_of[end.index()] = static_cast<std::int32_t>(rows_.size());
        rows_.emplace_back().start = end;
      }
      exit.row = row_of[end.index()];
      exits_.push_back(exit);
    }
  }
  first_exit_.push_back(exits_.size());
}

void RouteRows::append(RankId src, RankId dst, std::vector<FlowUse>& uses) {
  if (src == dst) return;
  if (cluster_.gpu_of_rank[src.index()] == cluster_.gpu_of_rank[dst.index()]) {
    return append_from_cluster(src, dst, uses);  // a copy inside the GPU
  }
  if (source_ != src && !turn_to(src)) return append_from_cluster(src, dst, uses);
  const Choice* best = nullptr;
  const Reach* reach = nullptr;
  bool is_several = false;
  for (const Choice& choice : choices_) {
    const std::size_t i = dst.index() - choice.begin;  // wraps round below `begin`
    if (i >= choice.size || choice.ranks[i].hops < 0) continue;
    const int further = best == nullptr ? -1 : choice.exit.hops + choice.ranks[i].hops - best->exit.hops - reach->hops;
    if (further > 0) continue;
    is_several = further == 0 || choice.ranks[i].is_several;
    best = &choice;
    reach = &choice.ranks[i];
  }
  if (best == nullptr) return;
  if (is_several) return append_from_cluster(src, dst, uses);
  uses.push_back({ResourceId(best->exit.link.value()), 1.0});
  for (std::uint32_t i = reach[0].first; i < reach[1].first; ++i) {
    uses.push_back({ResourceId(best->links[i].value()), 1.0});
  }
}

void RouteRows::append_from_cluster(RankId src, RankId dst, std::vector<FlowUse>& uses) const {
  const Route route = cluster_.route(src, dst);
  for (const RouteLink& l : route.links) {
    if (!is_left_out_[l.link.index()]) uses.push_back({ResourceId(l.link.value()), l.share});
  }
}

/// Makes `src` the current source; false if the cache has been cleared too often.
bool RouteRows::turn_to(RankId src) {
  if (bytes_ > most_bytes_) {
    if (times_full_ == kMostTimesFull) return false;
    ++times_full_;
    for (Row& row : rows_) {
      const VertexId start = row.start;
      row = {};
      row.start = start;
    }
    bytes_ = 0;
  }
  choices_.clear();
  for (std::size_t e = first_exit_[src.index()]; e < first_exit_[src.index() + 1]; ++e) {
    Row& row = rows_[static_cast<std::size_t>(exits_[e].row)];
    if (!row.is_filled) fill(row);
    if (row.ranks.empty()) continue;
    const auto size = static_cast<std::uint32_t>(row.ranks.size() - 1);
    choices_.push_back({exits_[e], row.begin, size, row.ranks.data(), row.links.data()});
  }
  source_ = src;
  return true;
}

void RouteRows::search(VertexId source) {
  for (const VertexId v : queue_) reached_[v.index()] = {};
  reached_[source.index()].hops = 0;
  queue_ = {source};
  if (cluster_.topology.vertices[source.index()].kind == VertexKind::Gpu) return;  // does not forward
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const VertexId u = queue_[i];
    const Reached from = reached_[u.index()];
    if (cluster_.topology.vertices[u.index()].kind == VertexKind::Gpu) continue;
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

void RouteRows::fill(Row& row) {
  search(row.start);
  row.is_filled = true;
  const auto is_reached = [&](VertexId gpu) { return reached_[gpu.index()].hops >= 0; };
  const std::vector<VertexId>& gpus = cluster_.gpu_of_rank;
  const auto begin = std::find_if(gpus.begin(), gpus.end(), is_reached);
  const auto end = std::find_if(gpus.rbegin(), std::make_reverse_iterator(begin), is_reached).base();
  if (begin == end) return;
  row.begin = static_cast<std::uint32_t>(begin - gpus.begin());
  row.ranks.reserve(static_cast<std::size_t>(end - begin) + 1);
  for (auto gpu = begin; gpu != end; ++gpu) {
    const Reached& at = reached_[gpu->index()];
    const std::size_t first = row.links.size();
    row.ranks.push_back({static_cast<std::uint32_t>(first), at.hops, at.is_several});
    if (at.hops < 0 || at.is_several) continue;
    for (VertexId v = *gpu; v != row.start;) {
      const LinkId by = reached_[v.index()].by;
      if (!is_left_out_[by.index()]) row.links.push_back(by);
      v = cluster_.topology.links[by.index()].from;
    }
    std::reverse(row.links.begin() + static_cast<std::ptrdiff_t>(first), row.links.end());
  }
  row.ranks.push_back({static_cast<std::uint32_t>(row.links.size()), -1, false});
  bytes_ += row.ranks.size() * sizeof(Reach) + row.links.capacity() * sizeof(LinkId);
}

}  // namespace moeplan::sim
