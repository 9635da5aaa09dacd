#include "sim/traffic/block_routes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "model/base/to_index.hpp"

namespace moeplan::sim {

namespace {

constexpr std::size_t kMostRouteUses = std::size_t{1} << 25;  // 512 MiB
constexpr double kMostSteps = 2e9;
constexpr double kMostPaths = 1e300;  // larger counts could overflow, and their ratios would be lost

}  // namespace

BlockRoutes::BlockRoutes(const Topology& topology) : topology_(topology), place_(topology.vertices.size()) {}

void BlockRoutes::refuse(std::size_t vertices) {
  throw NotFactored{fmt::format("{} places of the network are joined by more than one path", vertices)};
}

void BlockRoutes::begin(std::span<const Index> vertices, std::span<const LinkId> links) {
  vertices_ = vertices;
  for (std::size_t i = 0; i < vertices.size(); ++i) place_[to_index(vertices[i])] = static_cast<Index>(i);
  arcs_.clear();
  for (const LinkId id : links) {
    const Link& l = topology_.links[id.index()];
    arcs_.push_back({place_[l.from.index()], place_[l.to.index()], id});
  }
  std::stable_sort(arcs_.begin(), arcs_.end(), [](const Arc& x, const Arc& y) { return x.from < y.from; });
  first_arc_.assign(vertices.size() + 1, 0);
  for (const Arc& a : arcs_) ++first_arc_[to_index(a.from) + 1];
  for (std::size_t i = 1; i < first_arc_.size(); ++i) first_arc_[i] += first_arc_[i - 1];
}

void BlockRoutes::find_from(Index source_vertex, std::span<const Index> terminals) {
  const Index source = source_ = place_[to_index(source_vertex)];
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  reached_.assign(vertices_.size(), {});
  steps_ += static_cast<double>(vertices_.size());
  into_.clear();
  reached_[to_index(source)] = {0, 1, kInfinity, kInfinity};
  front_.assign(1, source);
  std::vector<Index>&front = front_, &next = next_;
  for (Index hops = 1; !front.empty(); ++hops) {
    next.clear();
    for (const Index v : front) {
      if (v != source && topology_.vertices[to_index(vertices_[to_index(v)])].kind == VertexKind::Gpu)
        continue;  // does not forward
      const Reached from = reached_[to_index(v)];
      for (std::size_t i = first_arc_[to_index(v)]; i < first_arc_[to_index(v) + 1]; ++i) {
        Reached& to = reached_[to_index(arcs_[i].to)];
        if (to.hops >= 0 && to.hops < hops) continue;
        if (to.hops < 0) {
          to = {hops, 0, kInfinity, 0};
          next.push_back(arcs_[i].to);
        }
        const double width = topology_.links[arcs_[i].link.index()].bandwidth.value();
        to.paths += from.paths;
        to.narrowest = std::min({to.narrowest, from.narrowest, width});
        to.widest = std::max(to.widest, std::min(from.widest, width));
        into_.push_back(arcs_[i]);
      }
      steps_ += static_cast<double>(first_arc_[to_index(v) + 1] - first_arc_[to_index(v)]);
    }
    steps_ += static_cast<double>(terminals.size());
    if (steps_ > kMostSteps) refuse(terminals.size());
    std::swap(front, next);
    if (std::all_of(terminals.begin(), terminals.end(),
                    [&](Index t) { return reached_[to_index(place_[to_index(t)])].hops >= 0; })) {
      break;
    }
  }
  // Arcs by target, so that paths can be followed backwards.
  std::stable_sort(into_.begin(), into_.end(), [](const Arc& x, const Arc& y) { return x.to < y.to; });
  first_into_.assign(vertices_.size() + 1, 0);
  for (const Arc& a : into_) ++first_into_[to_index(a.to) + 1];
  for (std::size_t i = 1; i < first_into_.size(); ++i) first_into_[i] += first_into_[i - 1];
}

void BlockRoutes::append_route_to(Index target_vertex, std::vector<FlowUse>& uses) {
  const Index target = place_[to_index(target_vertex)];
  if (reached_[to_index(target)].hops < 0) throw NotFactored{"a path through the network has no reverse path"};
  if (reached_[to_index(target)].narrowest != reached_[to_index(target)].widest) {
    throw NotFactored{"paths of equally many hops have different bandwidths"};
  }
  if (reached_[to_index(target)].paths > kMostPaths) refuse(vertices_.size());
  carried_.resize(vertices_.size(), 0);
  front_.assign(1, target);
  std::vector<Index>&level = front_, &nearer = next_;
  carried_[to_index(target)] = 1;
  const auto begin = static_cast<std::ptrdiff_t>(uses.size());
  while (level.front() != source_) {
    nearer.clear();
    for (const Index v : level) {
      for (std::size_t i = first_into_[to_index(v)]; i < first_into_[to_index(v) + 1]; ++i) {
        const Arc& a = into_[i];
        const double share = carried_[to_index(v)] * (reached_[to_index(a.from)].paths / reached_[to_index(v)].paths);
        uses.push_back({ResourceId(a.link.value()), share});
        if (carried_[to_index(a.from)] == 0) nearer.push_back(a.from);
        carried_[to_index(a.from)] += share;
      }
      carried_[to_index(v)] = 0;
    }
    if (uses.size() > kMostRouteUses) refuse(vertices_.size());
    std::swap(level, nearer);
  }
  carried_[to_index(source_)] = 0;
  std::reverse(uses.begin() + begin, uses.end());
}

}  // namespace moeplan::sim
