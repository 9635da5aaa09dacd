#include "model/machine/symmetry.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>

#include "model/base/disjoint_sets.hpp"
#include "model/base/to_index.hpp"
#include "model/machine/automorphism.hpp"
#include "model/machine/never_binding.hpp"
#include "model/machine/routes_of_gpu.hpp"

namespace moeplan {

namespace {

using Index = std::int32_t;

/// The boundaries above `first`: first | b1 | ... | world, or none if one does not divide the next.
std::optional<std::vector<std::int64_t>> digits(std::vector<std::int64_t> boundaries, std::int64_t first,
                                                std::int64_t world) {
  std::erase_if(boundaries, [&](std::int64_t b) { return b < first; });
  boundaries.push_back(first);
  boundaries.push_back(world);
  std::sort(boundaries.begin(), boundaries.end());
  boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
  while (boundaries.back() > world) boundaries.pop_back();
  for (std::size_t i = 0; i + 1 < boundaries.size(); ++i) {
    if (boundaries[i + 1] % boundaries[i] != 0) return std::nullopt;
  }
  return boundaries;
}

/// The images of all links when one digit of all ranks is rotated; none if that is not an automorphism.
std::optional<LinkImages> turn_digit(const RankedTopology& ranks, const Automorphisms& automorphisms, std::int64_t low,
                                     std::int64_t radix) {
  std::vector<Index> turned;
  for (std::int64_t r = 0; r < ranks.world_size(); ++r) {
    const std::int64_t digit = r / low % radix;
    turned.push_back(static_cast<Index>(r + ((digit + 1) % radix - digit) * low));
  }
  return automorphisms.links(ranks.gpu_of_rank, turned);
}

/// What the rotations of digits give, whatever rings the traffic has.
struct Rotations {
  SymmetricView view;             // without rings
  std::vector<bool> never_binds;  // by orbit
  // By representative: the number of each orbit's links on routes from it, and on routes to it.
  std::map<std::int64_t, std::vector<std::int32_t>> left, entered;
  std::map<RingFamily, std::optional<std::vector<SymmetricView::RingRoutes>>> rings;
};

}  // namespace

struct SymmetryCache::State {
  std::mutex mutex;
  std::optional<Automorphisms> automorphisms;
  /// By the digit's lowest rank distance and radix.
  std::map<std::pair<std::int64_t, std::int64_t>, std::optional<LinkImages>> turns;
  std::vector<std::vector<Route>> routes;             // by representative and rank
  std::map<std::int64_t, std::vector<bool>> entered;  // by representative and link: on a route to the representative
  std::map<std::vector<std::int64_t>, std::unique_ptr<Rotations>> rotations;  // by the cuts; null: no automorphisms
  std::map<SymmetryQuery, std::unique_ptr<SymmetricView>> views;
};

namespace {

/// turn_digit(), once for each digit.
const std::optional<LinkImages>& turned(const RankedTopology& ranks, SymmetryCache::State& state, std::int64_t low,
                                        std::int64_t radix) {
  if (!state.automorphisms) state.automorphisms.emplace(ranks.topology);
  const auto [it, is_new] = state.turns.try_emplace({low, radix});
  if (is_new) it->second = turn_digit(ranks, *state.automorphisms, low, radix);
  return it->second;
}

/// Orbits of links under all rotations, numbered by their first link; none if a rotation is not an automorphism.
std::optional<std::vector<Index>> link_orbits(const RankedTopology& ranks, SymmetryCache::State& state,
                                              const std::vector<std::int64_t>& cuts) {
  const std::size_t links = ranks.topology.links.size();
  DisjointSets orbits_of_links(links);
  for (std::size_t d = 0; d + 1 < cuts.size(); ++d) {
    const std::optional<LinkImages>& of_digit = turned(ranks, state, cuts[d], cuts[d + 1] / cuts[d]);
    if (!of_digit) return std::nullopt;
    of_digit->for_each([&](LinkId link, LinkId image) { orbits_of_links.join(link.index(), image.index()); });
  }
  std::vector<Index> orbit(links), number(links, -1);
  Index orbits = 0;
  for (std::size_t l = 0; l < links; ++l) {
    Index& n = number[orbits_of_links.least(l)];
    if (n < 0) n = orbits++;
    orbit[l] = n;
  }
  return orbit;
}

Route route(const RankedTopology& ranks, std::int64_t from, std::int64_t to) {
  return ranks.routes.between(ranks.gpu_of_rank[to_index(from)], ranks.gpu_of_rank[to_index(to)]);
}

SymmetricView::OrbitRoute orbit_route(const std::vector<Index>& orbit, const Route& route) {
  SymmetricView::OrbitRoute w{{}, route.latency};
  for (const RouteLink& l : route.links) w.orbits.emplace_back(orbit[l.link.index()], l.share);
  std::sort(w.orbits.begin(), w.orbits.end());
  // Paths that split over links of one orbit are merged.
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

/// The links on the routes to a representative.
const std::vector<bool>& links_to(const RankedTopology& ranks, SymmetryCache::State& state,
                                  std::int64_t representative) {
  const auto [it, is_new] = state.entered.try_emplace(representative);
  if (!is_new) return it->second;
  it->second.resize(ranks.topology.links.size());
  const RoutesOfGpu routes(ranks.topology, ranks.routes, ranks.gpu_of_rank[to_index(representative)],
                           RoutesOfGpu::Direction::To);
  for (std::int64_t r = 0; r < ranks.world_size(); ++r) {
    if (r == representative) continue;
    for (const RouteLink& l : routes.with(ranks.gpu_of_rank[to_index(r)]).links) it->second[l.link.index()] = true;
  }
  return it->second;
}

/// The links on the routes from a representative.
std::vector<bool> links_from(const RankedTopology& ranks, const SymmetryCache::State& state, std::int64_t from) {
  std::vector<bool> out(ranks.topology.links.size());
  for (const Route& leaving : state.routes[to_index(from)])
    for (const RouteLink& l : leaving.links) out[l.link.index()] = true;
  return out;
}

/// One edge of every image of a representative, `to` by rank, which leads to each image of another one once.
struct Edges {
  const std::vector<std::int64_t>& to;
  std::int64_t representative;
  std::int64_t peer;  // representative of the ends
};

/// Whether every link of the orbits is crossed equally often, if all edges cross these orbits to the same extent. It is
/// so without counting where an orbit has one link on all routes from the representative, or on all to the peer.
bool cross_evenly(const RankedTopology& ranks, SymmetryCache::State& state, Rotations& rotations, const Edges& edges,
                  const std::vector<std::pair<Index, double>>& orbits) {
  const std::vector<Index>& orbit = *rotations.view.orbits;
  const auto counted = [&](const std::vector<bool>& links) {
    std::vector<std::int32_t> out(rotations.view.capacity.size(), 0);
    for (std::size_t l = 0; l < orbit.size(); ++l) out[static_cast<std::size_t>(orbit[l])] += links[l] ? 1 : 0;
    return out;
  };
  std::vector<std::int32_t>& left = rotations.left[edges.representative];
  if (left.empty()) left = counted(links_from(ranks, state, edges.representative));
  std::vector<std::int32_t>& entered = rotations.entered[edges.peer];
  if (entered.empty()) entered = counted(links_to(ranks, state, edges.peer));
  const auto is_clear = [&](const auto& o) { return left[to_index(o.first)] == 1 || entered[to_index(o.first)] == 1; };
  if (std::all_of(orbits.begin(), orbits.end(), is_clear)) return true;
  std::vector<double> crossed(orbit.size(), 0.0);
  for (std::int64_t r = edges.representative; r < ranks.world_size(); r += rotations.view.representatives) {
    for (const RouteLink& l : route(ranks, r, edges.to[static_cast<std::size_t>(r)]).links)
      crossed[l.link.index()] += l.share;
  }
  std::map<Index, double> expected;
  for (std::size_t l = 0; l < orbit.size(); ++l) {
    if (rotations.never_binds[static_cast<std::size_t>(orbit[l])]) continue;
    const double other = expected.try_emplace(orbit[l], crossed[l]).first->second;
    if (std::abs(other - crossed[l]) > 1e-9) return false;
  }
  return true;
}

/// The rank to which the rotation that maps `from` to its representative maps `to`.
std::int64_t turned_back(const std::vector<std::int64_t>& cuts, std::int64_t from, std::int64_t to) {
  std::int64_t rank = to % cuts.front();
  for (std::size_t d = 0; d + 1 < cuts.size(); ++d) {
    const std::int64_t radix = cuts[d + 1] / cuts[d];
    rank += ((to / cuts[d] - from / cuts[d]) % radix + radix) % radix * cuts[d];
  }
  return rank;
}

/// One edge of every image of a representative as a route: the representative's own links and, for links that never
/// bind, the average over all images. None if the edges cross other orbits that can bind, cross the links of such an
/// orbit unequally often, or lead to images of different representatives.
std::optional<SymmetricView::OrbitRoute> even_route(const RankedTopology& ranks, SymmetryCache::State& state,
                                                    Rotations& rotations, std::int64_t representative,
                                                    const std::vector<std::int64_t>& to) {
  const SymmetricView& view = rotations.view;
  std::map<Index, double> average;
  std::vector<std::pair<Index, double>> first;
  Seconds latency;
  const std::int64_t representatives = view.representatives;
  const auto images = static_cast<double>(ranks.world_size() / representatives);
  const std::int64_t peer = to[static_cast<std::size_t>(representative)] % representatives;
  std::map<std::int32_t, std::int64_t> edges;  // by route
  for (std::int64_t r = representative; r < ranks.world_size(); r += representatives) {
    const std::int64_t end = to[static_cast<std::size_t>(r)];
    if (end % representatives != peer) return std::nullopt;
    const std::int64_t image = turned_back(rotations.view.digits, r, end);
    ++edges[view.route_between(RankId(to_index(representative)), RankId(to_index(image)))];
  }
  for (const auto& [path, count] : edges) {
    const SymmetricView::OrbitRoute& edge = view.route(path);
    latency = std::max(latency, edge.latency);
    std::vector<std::pair<Index, double>> binding;
    for (const auto& [o, share] : edge.orbits) {
      if (rotations.never_binds[static_cast<std::size_t>(o)]) {
        average[o] += share * static_cast<double>(count) / images;
      } else {
        binding.emplace_back(o, share);
      }
    }
    if (path == edges.begin()->first) first = binding;
    if (binding != first) return std::nullopt;
  }
  if (!cross_evenly(ranks, state, rotations, {to, representative, peer}, first)) return std::nullopt;
  SymmetricView::OrbitRoute w{std::move(first), latency};
  for (const auto& [o, share] : average) w.orbits.emplace_back(o, std::min(share, 1.0));
  std::sort(w.orbits.begin(), w.orbits.end());
  return w;
}

/// The routes of the rings' edges by representative, or none if an edge has no even route.
std::optional<std::vector<SymmetricView::RingRoutes>> ring_routes(const RankedTopology& ranks,
                                                                  SymmetryCache::State& state, Rotations& rotations,
                                                                  const RingFamily& ring) {
  const std::int64_t world = ranks.world_size();
  std::vector<std::int64_t> along, across;
  for (std::int64_t r = 0; r < world; ++r) {
    const std::int64_t position = r / ring.stride % ring.size;
    const RingEdges edges = ring_edges(position, ring.size, ring.per_node);
    along.push_back(r + (edges.along - position) * ring.stride);
    if (edges.across != position) across.push_back(r + (edges.across - position) * ring.stride);
  }
  std::vector<SymmetricView::RingRoutes> found;
  for (std::int64_t a = 0; a < rotations.view.representatives; ++a) {
    auto edge_route = even_route(ranks, state, rotations, a, along);
    if (!edge_route) return std::nullopt;
    found.push_back({*edge_route, *edge_route});
    if (across.empty()) continue;
    edge_route = even_route(ranks, state, rotations, a, across);
    if (!edge_route) return std::nullopt;
    found.back().across = std::move(*edge_route);
  }
  return found;
}

/// Whether rotating any digit maps each edge of such rings to another edge of them.
bool turns(const RingFamily& ring, const std::vector<std::int64_t>& cuts) {
  const std::int64_t representatives = cuts.front(), end = ring.stride * ring.size;
  if (end <= representatives) return true;
  const std::int64_t step = std::max(representatives, ring.stride);  // step of the rotations within the ring
  if (std::any_of(cuts.begin(), cuts.end(), [&](std::int64_t c) { return c > step && c < end; })) return false;
  const bool is_plain = ring.per_node == 1 || ring.per_node == ring.size;
  return is_plain || step % (ring.stride * ring.per_node) == 0;
}

/// The digits from `representatives` on; none if the rotations do not preserve the traffic.
std::optional<std::vector<std::int64_t>> cuts_of(const RankedTopology& ranks, const SymmetryQuery& query,
                                                 std::int64_t representatives) {
  const auto divides = [&](std::int64_t x) { return representatives % x == 0; };
  if (!std::all_of(query.fixed.begin(), query.fixed.end(), divides)) return std::nullopt;
  for (const std::int64_t b : query.boundaries) {
    if (b < representatives && !divides(b)) return std::nullopt;
  }
  std::vector<std::int64_t> boundaries = query.boundaries;
  boundaries.insert(boundaries.end(), ranks.natural_boundaries.begin(), ranks.natural_boundaries.end());
  auto cuts = digits(std::move(boundaries), representatives, ranks.world_size());
  if (!cuts) return std::nullopt;
  for (const auto& [low, high] : query.cyclic) {
    for (const std::int64_t cut : *cuts) {
      if (cut > std::max(low, representatives) && cut < high) return std::nullopt;
    }
  }
  return cuts;
}

/// Rotations of other digits that turn links into the same ones, as those of these digits; null if there are none.
std::unique_ptr<Rotations> with_equal_orbits(const SymmetryCache::State& state, const std::vector<std::int64_t>& cuts,
                                             const std::vector<Index>& orbit) {
  for (const auto& [other_cuts, other] : state.rotations) {
    if (!other || other_cuts.front() != cuts.front() || *other->view.orbits != orbit) continue;
    auto made = std::make_unique<Rotations>(*other);
    made->view.digits = cuts;
    made->rings.clear();
    return made;
  }
  return nullptr;
}

/// Sets `routes` and `route_to`.
void number_routes(SymmetricView& view, const std::vector<Index>& orbit, DistinctRoutes distinct) {
  std::vector<SymmetricView::OrbitRoute> routes;
  std::map<std::pair<std::vector<std::pair<Index, double>>, Seconds>, Index> numbers;
  std::vector<Index> number_of_kind;  // different kinds may split over links of one orbit to the same extent
  for (const Route* route : distinct.routes) {
    SymmetricView::OrbitRoute w = orbit_route(orbit, *route);
    const auto [it, is_new] = numbers.try_emplace(std::pair(w.orbits, w.latency), static_cast<Index>(routes.size()));
    if (is_new) routes.push_back(std::move(w));
    number_of_kind.push_back(it->second);
  }
  for (std::vector<Index>& to : distinct.number) {
    for (Index& number : to) {
      if (number >= 0) number = number_of_kind[static_cast<std::size_t>(number)];
    }
  }
  view.routes = std::make_shared<const std::vector<SymmetricView::OrbitRoute>>(std::move(routes));
  view.route_to = std::make_shared<const std::vector<std::vector<Index>>>(std::move(distinct.number));
}

std::unique_ptr<Rotations> make_rotations(const RankedTopology& ranks, SymmetryCache::State& state,
                                          const std::vector<std::int64_t>& cuts) {
  auto orbit = link_orbits(ranks, state, cuts);
  if (!orbit) return nullptr;
  const std::int64_t representatives = cuts.front();
  if (auto known = with_equal_orbits(state, cuts, *orbit)) return known;
  for (std::int64_t a = std::ssize(state.routes); a < representatives; ++a) {
    const RoutesOfGpu routes(ranks.topology, ranks.routes, ranks.gpu_of_rank[to_index(a)],
                             RoutesOfGpu::Direction::From);
    std::vector<Route>& by_rank = state.routes.emplace_back();
    for (std::int64_t p = 0; p < ranks.world_size(); ++p)
      by_rank.push_back(p == a ? Route{} : routes.with(ranks.gpu_of_rank[to_index(p)]));
  }
  const std::span<const std::vector<Route>> routes(state.routes.data(), static_cast<std::size_t>(representatives));
  auto made = std::make_unique<Rotations>();
  SymmetricView* view = &made->view;
  view->representatives = representatives;
  view->digits = cuts;
  const auto images = static_cast<double>(ranks.world_size() / representatives);
  const std::size_t orbits =
      orbit->empty() ? 0 : static_cast<std::size_t>(*std::max_element(orbit->begin(), orbit->end())) + 1;
  DistinctRoutes distinct = distinct_routes(*orbit, routes);
  made->never_binds = never_binding(ranks.topology, *orbit, orbits, distinct.routes);
  std::vector<double> size(orbits, 0.0);
  view->capacity.assign(orbits, 0.0);
  for (std::size_t l = 0; l < orbit->size(); ++l) {
    const auto o = static_cast<std::size_t>((*orbit)[l]);
    size[o] += 1;
    view->capacity[o] += ranks.topology.links[l].bandwidth.value() / images;
  }
  for (const double n : size) view->bytes_per_link.push_back(images / n);
  for (std::size_t o = 0; o < orbits; ++o) {
    if (made->never_binds[o]) view->capacity[o] = std::numeric_limits<double>::infinity();
  }
  number_routes(*view, *orbit, std::move(distinct));
  view->orbits = std::make_shared<const std::vector<Index>>(std::move(*orbit));
  return made;
}

std::unique_ptr<SymmetricView> make_view(const RankedTopology& ranks, SymmetryCache::State& state,
                                         const SymmetryQuery& query, std::int64_t representatives) {
  const auto cuts = cuts_of(ranks, query, representatives);
  if (!cuts) return nullptr;
  const auto [at, is_new] = state.rotations.try_emplace(*cuts);
  if (is_new) at->second = make_rotations(ranks, state, *cuts);
  if (!at->second) return nullptr;
  Rotations& rotations = *at->second;
  std::map<RingFamily, std::vector<SymmetricView::RingRoutes>> rings;
  for (const RingFamily& ring : query.rings) {
    if (representatives > 1 && turns(ring, *cuts)) continue;
    const auto [found, is_new_ring] = rotations.rings.try_emplace(ring);
    if (is_new_ring) found->second = ring_routes(ranks, state, rotations, ring);
    if (!found->second) return nullptr;
    rings.emplace(ring, *found->second);
  }
  auto view = std::make_unique<SymmetricView>(rotations.view);
  view->rings = std::move(rings);
  return view;
}

/// Candidate numbers of representatives, ascending.
std::set<std::int64_t> counts_of_representatives(const RankedTopology& ranks, const SymmetryQuery& query) {
  constexpr std::int64_t kMostRoutes = std::int64_t{1} << 20U;  // assumed: limits their memory to about 200 MB
  std::int64_t fixed = 1;
  for (const std::int64_t n : query.fixed) fixed = std::lcm(fixed, n);
  std::set<std::int64_t> counts{1, fixed};
  counts.insert(ranks.natural_boundaries.begin(), ranks.natural_boundaries.end());
  const std::int64_t world = ranks.world_size(), in_node = ranks.ranks_per_node();
  std::erase_if(counts,
                [&](std::int64_t n) { return n > 1 && (n > in_node || n == world || n * world > kMostRoutes); });
  return counts;
}

}  // namespace

RankId SymmetricView::turned(RankId first, RankId rank) const {
  std::int64_t out = rank.value() % representatives;
  for (std::size_t i = 0; i + 1 < digits.size(); ++i) {
    const std::int64_t unit = digits[i], base = digits[i + 1] / unit;
    out += (rank.value() / unit - first.value() / unit + base * digits.back()) % base * unit;
  }
  return RankId(static_cast<std::int32_t>(out));
}

SymmetryCache::SymmetryCache() : state_(std::make_unique<State>()) {}
SymmetryCache::~SymmetryCache() = default;
SymmetryCache::SymmetryCache(SymmetryCache&&) noexcept = default;
SymmetryCache& SymmetryCache::operator=(SymmetryCache&&) noexcept = default;

const SymmetricView* symmetric_view(const RankedTopology& ranks, const SymmetryCache& cache,
                                    const SymmetryQuery& query) {
  SymmetryCache::State& state = cache.state();
  const std::lock_guard lock(state.mutex);
  const auto [it, is_new] = state.views.try_emplace(query);
  if (!is_new || ranks.natural_boundaries.empty()) return it->second.get();
  for (const std::int64_t representatives : counts_of_representatives(ranks, query)) {
    it->second = make_view(ranks, state, query, representatives);
    if (it->second) break;
  }
  return it->second.get();
}

const LinkImages* shifted_links(const RankedTopology& ranks, const SymmetryCache& cache, std::int64_t shift) {
  if (ranks.natural_boundaries.empty()) return nullptr;
  SymmetryCache::State& state = cache.state();
  const std::lock_guard lock(state.mutex);
  const std::optional<LinkImages>& images = turned(ranks, state, shift, ranks.world_size() / shift);
  return images ? &*images : nullptr;
}

}  // namespace moeplan
