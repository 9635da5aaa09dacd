#include "model/specs/symmetry.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <tuple>

#include "model/specs/cluster.hpp"

namespace moeplan {

namespace {

using Index = std::int32_t;

/// A link's properties that an automorphism keeps.
using LinkKind = std::tuple<double, double, int>;

LinkKind kind_of(const Link& l) { return {l.bandwidth.value(), l.latency.value(), static_cast<int>(l.tier)}; }

/// Extends a permutation of GPUs to the whole topology, vertex by vertex from the GPUs outwards: an unmapped vertex
/// goes to the one that is joined to the images of its mapped neighbours by equal links. Ties are broken by order; the
/// result is verified, so a wrong guess only means "not shown".
class Extension {
 public:
  explicit Extension(const Topology& topology) : neighbours_(topology.vertices.size()) {
    for (std::size_t l = 0; l < topology.links.size(); ++l) {
      const Link& link = topology.links[l];
      neighbours_[link.from.index()].push_back({link.to.value(), true, kind_of(link)});
      neighbours_[link.to.index()].push_back({link.from.value(), false, kind_of(link)});
      by_ends_[{link.from.value(), link.to.value()}].push_back(LinkId(l));
    }
    for (auto& [ends, links] : by_ends_) {
      std::sort(links.begin(), links.end(), [&](LinkId a, LinkId b) {
        return std::pair(kind_of(topology.links[a.index()]), a) < std::pair(kind_of(topology.links[b.index()]), b);
      });
    }
  }

  /// The images of all links, or nothing.
  std::optional<std::vector<Index>> links(const Topology& topology, const std::vector<VertexId>& gpus,
                                          const std::vector<Index>& turned) const {
    std::vector<Index> image(topology.vertices.size(), -1);
    std::vector<bool> taken(topology.vertices.size(), false);
    std::vector<Index> front;
    for (std::size_t r = 0; r < gpus.size(); ++r) {
      image[gpus[r].index()] = gpus[static_cast<std::size_t>(turned[r])].value();
      taken[gpus[r].index()] = true;
      front.push_back(gpus[r].value());
    }
    while (!front.empty()) {
      auto next = grow(front, image, taken);
      if (!next) return std::nullopt;
      front = std::move(*next);
    }
    return verified(topology, image);
  }

 private:
  struct Neighbour {
    Index vertex;
    bool outwards;
    LinkKind kind;
  };
  using Signature = std::vector<std::tuple<Index, bool, LinkKind>>;

  /// Maps the vertices next to `front`; null where there is no counterpart.
  std::optional<std::vector<Index>> grow(const std::vector<Index>& front, std::vector<Index>& image,
                                         std::vector<bool>& taken) const {
    std::vector<Index> sources, targets;
    for (const Index v : front) {
      for (const Neighbour& n : neighbours_[static_cast<std::size_t>(v)]) {
        if (image[static_cast<std::size_t>(n.vertex)] < 0) sources.push_back(n.vertex);
      }
      for (const Neighbour& n : neighbours_[static_cast<std::size_t>(image[static_cast<std::size_t>(v)])]) {
        if (!taken[static_cast<std::size_t>(n.vertex)]) targets.push_back(n.vertex);
      }
    }
    for (std::vector<Index>* list : {&sources, &targets}) {
      std::sort(list->begin(), list->end());
      list->erase(std::unique(list->begin(), list->end()), list->end());
    }
    std::map<Signature, std::vector<Index>> waiting;
    for (auto t = targets.rbegin(); t != targets.rend(); ++t) {
      Signature s;
      for (const Neighbour& n : neighbours_[static_cast<std::size_t>(*t)]) {
        if (taken[static_cast<std::size_t>(n.vertex)]) s.emplace_back(n.vertex, n.outwards, n.kind);
      }
      std::sort(s.begin(), s.end());
      waiting[s].push_back(*t);
    }
    std::vector<std::pair<Index, Index>> found;
    for (const Index v : sources) {
      Signature s;
      for (const Neighbour& n : neighbours_[static_cast<std::size_t>(v)]) {
        if (const Index i = image[static_cast<std::size_t>(n.vertex)]; i >= 0) s.emplace_back(i, n.outwards, n.kind);
      }
      std::sort(s.begin(), s.end());
      const auto it = waiting.find(s);
      if (it == waiting.end() || it->second.empty()) return std::nullopt;
      found.emplace_back(v, it->second.back());
      it->second.pop_back();
    }
    for (const auto& [v, t] : found) {
      image[static_cast<std::size_t>(v)] = t;
      taken[static_cast<std::size_t>(t)] = true;
    }
    return sources;
  }

  std::optional<std::vector<Index>> verified(const Topology& topology, const std::vector<Index>& image) const {
    std::vector<Index> links(topology.links.size(), -1);
    for (const auto& [ends, own] : by_ends_) {
      const Index from = image[static_cast<std::size_t>(ends.first)], to = image[static_cast<std::size_t>(ends.second)];
      if (from < 0 && to < 0) continue;  // not joined to any rank
      if (from < 0 || to < 0) return std::nullopt;
      const auto it = by_ends_.find({from, to});
      if (it == by_ends_.end() || it->second.size() != own.size()) return std::nullopt;
      for (std::size_t i = 0; i < own.size(); ++i) {
        if (kind_of(topology.links[own[i].index()]) != kind_of(topology.links[it->second[i].index()]))
          return std::nullopt;
        links[own[i].index()] = it->second[i].value();
      }
    }
    return links;
  }

  std::vector<std::vector<Neighbour>> neighbours_;
  std::map<std::pair<Index, Index>, std::vector<LinkId>> by_ends_;
};

/// 1 | b1 | ... | world, or nothing where one does not divide the next.
std::optional<std::vector<std::int64_t>> digits(std::vector<std::int64_t> boundaries, std::int64_t world) {
  boundaries.push_back(1);
  boundaries.push_back(world);
  std::sort(boundaries.begin(), boundaries.end());
  boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
  while (boundaries.back() > world) boundaries.pop_back();
  for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) {
    if (boundaries[i + 1] % boundaries[i] != 0) return std::nullopt;
  }
  return boundaries;
}

Index root(std::vector<Index>& parent, Index i) {
  while (parent[static_cast<std::size_t>(i)] != i) {
    Index& p = parent[static_cast<std::size_t>(i)];
    p = parent[static_cast<std::size_t>(p)];
    i = p;
  }
  return i;
}

/// The images of all links when one digit of all ranks is turned; nothing where that is no automorphism.
using LinkImages = std::optional<std::vector<Index>>;

LinkImages turn_digit(const Cluster& cluster, const Extension& extension, std::int64_t low, std::int64_t radix) {
  std::vector<Index> turned;
  for (std::int64_t r = 0; r < cluster.world_size(); ++r) {
    const std::int64_t digit = r / low % radix;
    turned.push_back(static_cast<Index>(r + ((digit + 1) % radix - digit) * low));
  }
  return extension.links(cluster.topology, cluster.gpu_of_rank, turned);
}

}  // namespace

struct SymmetryCache::State {
  std::mutex mutex;
  std::optional<Extension> extension;
  std::map<std::pair<std::int64_t, std::int64_t>, LinkImages> turns;  // by lowest place of the digit and radix
  std::vector<Route> routes;                                          // from rank 0, by rank
  std::map<SymmetryQuery, std::unique_ptr<SymmetricView>> views;
};

namespace {

/// Orbits of links under all turns, numbered by their first link; nothing where a turn is no automorphism.
std::optional<std::vector<Index>> link_orbits(const Cluster& cluster, SymmetryCache::State& state,
                                              const std::vector<std::int64_t>& cuts) {
  if (!state.extension) state.extension.emplace(cluster.topology);
  std::vector<Index> parent(cluster.topology.links.size());
  std::iota(parent.begin(), parent.end(), 0);
  for (std::size_t d = 0; d + 1 < cuts.size(); ++d) {
    const std::int64_t low = cuts[d], radix = cuts[d + 1] / low;
    const auto [it, is_new] = state.turns.try_emplace({low, radix});
    if (is_new) it->second = turn_digit(cluster, *state.extension, low, radix);
    if (!it->second) return std::nullopt;
    const std::vector<Index>& images = *it->second;
    for (std::size_t l = 0; l < images.size(); ++l) {
      if (images[l] < 0) continue;
      const Index a = root(parent, static_cast<Index>(l)), b = root(parent, images[l]);
      parent[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
    }
  }
  std::vector<Index> orbit(parent.size()), number(parent.size(), -1);
  Index orbits = 0;
  for (std::size_t l = 0; l < parent.size(); ++l) {
    Index& n = number[static_cast<std::size_t>(root(parent, static_cast<Index>(l)))];
    if (n < 0) n = orbits++;
    orbit[l] = n;
  }
  return orbit;
}

Route route(const Cluster& cluster, std::int64_t from, std::int64_t to) {
  return cluster.routes.between(cluster.gpu_of_rank[static_cast<std::size_t>(from)],
                                cluster.gpu_of_rank[static_cast<std::size_t>(to)]);
}

SymmetricView::Way way(const std::vector<Index>& orbit, const Route& route) {
  SymmetricView::Way w{{}, route.latency};
  for (const RouteLink& l : route.links) w.orbits.emplace_back(orbit[l.link.index()], l.share);
  std::sort(w.orbits.begin(), w.orbits.end());
  // Paths that split over links of one orbit meet there again.
  std::vector<std::pair<Index, double>> merged;
  for (const auto& [o, share] : w.orbits) {
    if (!merged.empty() && merged.back().first == o && share < 1) {
      merged.back().second += share;
    } else {
      merged.emplace_back(o, share);
    }
  }
  w.orbits = std::move(merged);
  return w;
}

/// Whether one edge of every rank crosses rank 0's orbits, and each link of an orbit equally often.
bool evenly_used(const Cluster& cluster, const std::vector<Index>& orbit, const std::vector<std::int64_t>& to) {
  std::vector<double> crossed(orbit.size(), 0.0);
  std::optional<SymmetricView::Way> first;
  for (std::int64_t r = 0; r < cluster.world_size(); ++r) {
    const Route edge = route(cluster, r, to[static_cast<std::size_t>(r)]);
    for (const RouteLink& l : edge.links) crossed[l.link.index()] += l.share;
    const SymmetricView::Way own = way(orbit, edge);
    if (!first) first = own;
    if (own != *first) return false;
  }
  std::map<Index, double> expected;
  for (std::size_t l = 0; l < orbit.size(); ++l) {
    const double other = expected.try_emplace(orbit[l], crossed[l]).first->second;
    if (std::abs(other - crossed[l]) > 1e-9) return false;
  }
  return true;
}

bool rings_fit(const Cluster& cluster, const std::vector<Index>& orbit, const RingFamily& ring) {
  const std::int64_t world = cluster.world_size();
  std::vector<std::int64_t> along, across;
  for (std::int64_t r = 0; r < world; ++r) {
    const std::int64_t position = r / ring.stride % ring.size;
    const RingEdges edges = ring_edges(position, ring.size, ring.per_node);
    along.push_back(r + (edges.along - position) * ring.stride);
    if (edges.across != position) across.push_back(r + (edges.across - position) * ring.stride);
  }
  return evenly_used(cluster, orbit, along) && (across.empty() || evenly_used(cluster, orbit, across));
}

std::unique_ptr<SymmetricView> make_view(const Cluster& cluster, SymmetryCache::State& state,
                                         const SymmetryQuery& query) {
  std::vector<std::int64_t> boundaries = query.boundaries;
  boundaries.insert(boundaries.end(), cluster.natural_boundaries.begin(), cluster.natural_boundaries.end());
  const auto cuts = digits(std::move(boundaries), cluster.world_size());
  if (!cuts || cluster.natural_boundaries.empty()) return nullptr;
  for (const auto& [low, high] : query.cyclic) {
    for (const std::int64_t cut : *cuts) {
      if (cut > low && cut < high) return nullptr;
    }
  }
  auto orbit = link_orbits(cluster, state, *cuts);
  if (!orbit) return nullptr;
  for (const RingFamily& ring : query.rings) {
    if (!rings_fit(cluster, *orbit, ring)) return nullptr;
  }
  auto view = std::make_unique<SymmetricView>();
  const auto world = static_cast<double>(cluster.world_size());
  const std::size_t orbits =
      orbit->empty() ? 0 : static_cast<std::size_t>(*std::max_element(orbit->begin(), orbit->end())) + 1;
  std::vector<double> size(orbits, 0.0);
  view->capacity.assign(orbits, 0.0);
  for (std::size_t l = 0; l < orbit->size(); ++l) {
    const auto o = static_cast<std::size_t>((*orbit)[l]);
    size[o] += 1;
    view->capacity[o] += cluster.topology.links[l].bandwidth.value() / world;
  }
  for (const double n : size) view->bytes_per_link.push_back(world / n);
  view->way_to.assign(static_cast<std::size_t>(cluster.world_size()), -1);
  if (state.routes.empty()) {
    state.routes.emplace_back();
    for (std::int64_t p = 1; p < cluster.world_size(); ++p) state.routes.push_back(route(cluster, 0, p));
  }
  for (std::int64_t p = 1; p < cluster.world_size(); ++p) {
    const SymmetricView::Way w = way(*orbit, state.routes[static_cast<std::size_t>(p)]);
    const auto it = std::find(view->ways.begin(), view->ways.end(), w);
    view->way_to[static_cast<std::size_t>(p)] = static_cast<Index>(it - view->ways.begin());
    if (it == view->ways.end()) view->ways.push_back(w);
  }
  view->orbit_of_link = std::move(*orbit);
  return view;
}

}  // namespace

SymmetryCache::SymmetryCache() : state_(std::make_unique<State>()) {}
SymmetryCache::~SymmetryCache() = default;
SymmetryCache::SymmetryCache(SymmetryCache&&) noexcept = default;
SymmetryCache& SymmetryCache::operator=(SymmetryCache&&) noexcept = default;

const SymmetricView* symmetric_view(const Cluster& cluster, const SymmetryQuery& query) {
  SymmetryCache::State& state = cluster.symmetries.state();
  const std::lock_guard lock(state.mutex);
  const auto [it, is_new] = state.views.try_emplace(query);
  if (is_new) it->second = make_view(cluster, state, query);
  return it->second.get();
}

RingEdges ring_edges(std::int64_t position, std::int64_t size, std::int64_t per_node) {
  const std::int64_t nodes = size / per_node;
  if (nodes == 1 || per_node == 1) return {(position + 1) % size, position};
  const std::int64_t node = position / per_node, next = (position % per_node + 1) % per_node;
  return {node * per_node + next, (node + 1) % nodes * per_node + next};
}

}  // namespace moeplan
