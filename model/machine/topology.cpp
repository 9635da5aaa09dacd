#include "model/machine/topology.hpp"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <map>
#include <mutex>
#include <unordered_map>

namespace moeplan {

namespace {

/// The vertices seen by a search, with their positions in it: a small open-addressing hash table.
class Seen {
 public:
  struct Entry {
    std::int32_t vertex = kFree;
    std::int32_t hops = 0;
    std::uint32_t position = 0;  // among the vertices at the same distance
  };

  Seen() : table_(32) {}

  [[nodiscard]] const Entry* find(std::int32_t vertex) const {
    const Entry& e = table_[slot(vertex)];
    return e.vertex == vertex ? &e : nullptr;
  }
  /// The vertex's entry; `fresh` if it is new.
  Entry insert(const Entry& fresh) {
    Entry& e = table_[slot(fresh.vertex)];
    if (e.vertex == fresh.vertex) return e;
    e = fresh;
    if (++size_ * 2 > table_.size()) grow();
    return fresh;
  }

 private:
  static constexpr std::int32_t kFree = -1;

  [[nodiscard]] std::size_t slot(std::int32_t vertex) const {
    const std::size_t mask = table_.size() - 1;
    std::size_t i = (static_cast<std::size_t>(vertex) * 0x9E3779B97F4A7C15U >> 32U) & mask;
    while (table_[i].vertex != kFree && table_[i].vertex != vertex) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    std::vector<Entry> old(table_.size() * 2);
    std::swap(old, table_);
    for (const Entry& e : old) {
      if (e.vertex != kFree) table_[slot(e.vertex)] = e;
    }
  }

  std::vector<Entry> table_;
  std::size_t size_ = 0;
};

/// One link of the graph of fewest-hop paths; tail and head are positions in the levels at its ends.
struct RouteStep {
  LinkId link;
  std::size_t tail;
  std::size_t head;
};

/// The graph of all shortest paths by hops: level 0 is the source, the last level is the destination. A level may have
/// positions that no step uses.
struct PathGraph {
  std::vector<std::size_t> level_size;
  std::vector<std::vector<RouteStep>> steps;  // from each level to the next
};

/// A search from one end: the vertices by distance, and the links through which they were reached.
struct Side {
  struct Reached {
    LinkId link;
    std::size_t near;  // position in the level closer to the end
    std::size_t far;   // position in the next level
  };

  const Adjacency* arcs;
  Seen seen;
  std::vector<std::vector<std::int32_t>> levels;  // by distance
  std::vector<std::vector<Reached>> reached;      // from each level to the next

  Side(const Adjacency& adjacency, std::int32_t end) : arcs(&adjacency), levels{{end}} { seen.insert({end, 0, 0}); }

  [[nodiscard]] const std::vector<std::int32_t>& frontier() const { return levels.back(); }
  /// Number of links to examine to extend the search by one hop.
  [[nodiscard]] std::size_t work() const {
    std::size_t sum = 0;
    for (const std::int32_t v : frontier()) sum += arcs->of(v).size();
    return sum;
  }
  /// Extends the search by one hop, through vertices that forward or to `goal`.
  void advance(const std::vector<char>& forwards, std::int32_t goal) {
    std::vector<std::int32_t> next;
    std::vector<Reached> by;
    const auto hops = static_cast<std::int32_t>(levels.size());
    for (std::size_t i = 0; i < frontier().size(); ++i) {
      for (const Adjacency::Arc& arc : arcs->of(frontier()[i])) {
        if (arc.other != goal && !forwards[static_cast<std::size_t>(arc.other)]) continue;
        const auto end = static_cast<std::uint32_t>(next.size());
        const Seen::Entry e = seen.insert({arc.other, hops, end});
        if (e.hops != hops) continue;
        if (e.position == end) next.push_back(arc.other);
        by.push_back({arc.link, i, e.position});
      }
    }
    levels.push_back(std::move(next));
    reached.push_back(std::move(by));
  }
};

/// The paths of a graph over links of at least some bandwidth.
struct PathCounts {
  /// The number of paths that reach each vertex, by level. Counts may be huge, so those of a level are kept relative to
  /// its largest; only ratios within a level matter.
  std::vector<std::vector<double>> by_level;
  double latency;  // the highest of any path, s
};

}  // namespace

struct Routes::State {
  explicit State(const Topology& topology)
      : out(topology, &Link::from, &Link::to), in(topology, &Link::to, &Link::from) {
    forwards.reserve(topology.vertices.size());
    for (const Vertex& v : topology.vertices) forwards.push_back(v.kind != VertexKind::Gpu);
    std::map<Rates, std::uint32_t> numbers;
    rates_of_link_.reserve(topology.links.size());
    for (const Link& link : topology.links) {
      const Rates own(link.bandwidth.value(), link.latency.value());
      const auto [it, is_new] = numbers.try_emplace(own, static_cast<std::uint32_t>(rates_.size()));
      if (is_new) rates_.push_back(own);
      rates_of_link_.push_back(it->second);
    }
  }

  [[nodiscard]] double bandwidth(LinkId link) const { return rates_[rates_of_link_[link.index()]].first; }  // B/s
  [[nodiscard]] double latency(LinkId link) const { return rates_[rates_of_link_[link.index()]].second; }   // s

  [[nodiscard]] PathGraph fewest_hops(std::int32_t from, std::int32_t to) const;
  /// The largest bottleneck bandwidth of any path.
  [[nodiscard]] double widest(const PathGraph& graph) const;
  [[nodiscard]] PathCounts paths(const PathGraph& graph, double least_bandwidth) const;

  Adjacency out;
  Adjacency in;
  std::vector<char> forwards;  // by vertex

 private:
  using Rates = std::pair<double, double>;  // bandwidth and latency, of which the links of a cluster have a few
  std::vector<Rates> rates_;
  std::vector<std::uint32_t> rates_of_link_;
};

PathGraph Routes::State::fewest_hops(std::int32_t from, std::int32_t to) const {
  Side source(out, from), target(in, to);
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  // The searches meet at a level of the graph: the index in it of each vertex of the two last levels.
  std::vector<std::size_t> source_place, target_place;
  std::size_t met = 0;
  while (met == 0) {
    if (source.frontier().empty() || target.frontier().empty()) return {};
    if (source.work() <= target.work()) {
      source.advance(forwards, to);
    } else {
      target.advance(forwards, from);
    }
    source_place.assign(source.frontier().size(), kNone);
    target_place.assign(target.frontier().size(), kNone);
    for (std::size_t i = 0; i < source_place.size(); ++i) {
      // A vertex that both searches have seen is at the last distance of both: a shorter path would have been found
      // before.
      const Seen::Entry* e = target.seen.find(source.frontier()[i]);
      if (!e) continue;
      source_place[i] = target_place[e->position] = met++;
    }
  }

  // Keep only the links on paths through the middle: backwards on the source's side, forwards on the destination's.
  const std::size_t front = source.reached.size(), back = target.reached.size();
  PathGraph graph{.level_size = std::vector<std::size_t>(front + back + 1),
                  .steps = std::vector<std::vector<RouteStep>>(front + back)};
  graph.level_size[front] = met;
  for (std::size_t i = front; i-- > 0;) {
    graph.level_size[i] = source.levels[i].size();
    std::vector<std::size_t> nearer(graph.level_size[i], kNone);
    for (const Side::Reached& r : source.reached[i]) {
      if (source_place[r.far] == kNone) continue;
      nearer[r.near] = r.near;
      graph.steps[i].push_back({r.link, r.near, source_place[r.far]});
    }
    source_place = std::move(nearer);
  }
  for (std::size_t i = back; i-- > 0;) {
    const std::size_t level = front + back - i;  // level of the nearer ends
    graph.level_size[level] = target.levels[i].size();
    std::vector<std::size_t> nearer(graph.level_size[level], kNone);
    for (const Side::Reached& r : target.reached[i]) {
      if (target_place[r.far] == kNone) continue;
      nearer[r.near] = r.near;
      graph.steps[level - 1].push_back({r.link, target_place[r.far], r.near});
    }
    target_place = std::move(nearer);
  }
  return graph;
}

double Routes::State::widest(const PathGraph& graph) const {
  std::vector<double> width{std::numeric_limits<double>::infinity()};  // by vertex of a level
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    std::vector<double> next(graph.level_size[i + 1], 0);
    for (const RouteStep& s : graph.steps[i]) {
      next[s.head] = std::max(next[s.head], std::min(width[s.tail], bandwidth(s.link)));
    }
    width = std::move(next);
  }
  return width.front();
}

PathCounts Routes::State::paths(const PathGraph& graph, double least_bandwidth) const {
  std::vector<std::vector<double>> counts{{1.0}};
  std::vector<double> slowest{0.0};  // the highest latency of a path to each vertex of a level
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    std::vector<double> next(graph.level_size[i + 1], 0), next_slowest(graph.level_size[i + 1], 0);
    for (const RouteStep& s : graph.steps[i]) {
      if (bandwidth(s.link) < least_bandwidth || counts[i][s.tail] == 0) continue;
      next[s.head] += counts[i][s.tail];
      next_slowest[s.head] = std::max(next_slowest[s.head], slowest[s.tail] + latency(s.link));
    }
    const double most = *std::max_element(next.begin(), next.end());
    if (most > 1e100) {
      for (double& n : next) n /= most;
    }
    counts.push_back(std::move(next));
    slowest = std::move(next_slowest);
  }
  return {std::move(counts), slowest.front()};
}

std::string Topology::link_name(LinkId link) const {
  const Link& l = links[link.index()];
  const std::string& from = vertices[l.from.index()].name;
  return l.from == l.to ? "memory of " + from : from + " -> " + vertices[l.to.index()].name;
}

Adjacency::Adjacency(const Topology& topology, VertexId Link::*near, VertexId Link::*far)
    : first_(topology.vertices.size() + 2, 0), arcs_(topology.links.size()) {
  for (const Link& link : topology.links) ++first_[(link.*near).index() + 2];
  for (std::size_t v = 2; v < first_.size(); ++v) first_[v] += first_[v - 1];
  for (std::size_t i = 0; i < topology.links.size(); ++i) {
    const Link& link = topology.links[i];
    arcs_[first_[(link.*near).index() + 1]++] = {(link.*far).value(), LinkId(i)};
  }
  first_.pop_back();
}

Routes::Routes(const Topology& topology) : state_(std::make_unique<State>(topology)) {}
Routes::~Routes() = default;
Routes::Routes(Routes&&) noexcept = default;
Routes& Routes::operator=(Routes&&) noexcept = default;

const Adjacency& Routes::leaving() const { return state_->out; }
const Adjacency& Routes::entering() const { return state_->in; }

Route Routes::between(VertexId from, VertexId to) const {
  assert(from != to && "a route joins two different GPUs");
  const PathGraph graph = state_->fewest_hops(from.value(), to.value());
  if (graph.steps.empty()) return {};
  const auto has_one = [](const std::vector<RouteStep>& steps) { return steps.size() == 1; };
  if (std::all_of(graph.steps.begin(), graph.steps.end(), has_one)) {
    Route route{.links = {}, .latency = Seconds(0)};
    route.links.reserve(graph.steps.size());
    for (const std::vector<RouteStep>& steps : graph.steps) {
      route.links.push_back({steps.front().link, 1.0});
      route.latency += Seconds(state_->latency(steps.front().link));
    }
    return route;
  }

  // All paths whose bottleneck is the widest share the traffic.
  const double widest = state_->widest(graph);
  const PathCounts paths = state_->paths(graph, widest);
  // Backwards from the destination: a vertex's traffic is divided among its incoming links in proportion to the number
  // of paths through each.
  Route route{.links = {}, .latency = Seconds(paths.latency)};
  std::vector<double> carried{1.0};
  for (std::size_t i = graph.steps.size(); i-- > 0;) {
    std::vector<double> arriving(graph.level_size[i + 1], 0), next(graph.level_size[i], 0);
    const auto counts = [&](const RouteStep& s) {
      return state_->bandwidth(s.link) >= widest ? paths.by_level[i][s.tail] : 0;
    };
    for (const RouteStep& s : graph.steps[i]) arriving[s.head] += counts(s);
    for (auto s = graph.steps[i].rbegin(); s != graph.steps[i].rend(); ++s) {
      if (counts(*s) == 0 || carried[s->head] == 0) continue;
      const double share = carried[s->head] * (counts(*s) / arriving[s->head]);
      next[s->tail] += share;
      route.links.push_back({s->link, share});
    }
    carried = std::move(next);
  }
  std::reverse(route.links.begin(), route.links.end());
  return route;
}

struct RouteCache::State {
  struct Part {
    std::mutex mutex;
    std::unordered_map<std::uint64_t, Route> routes;  // by both ranks; its references stay valid
  };
  std::array<Part, 64> parts;  // by sender, so that threads rarely wait for each other

  Part& of(RankId from) { return parts[from.index() % parts.size()]; }
  static std::uint64_t key(RankId from, RankId to) {
    return static_cast<std::uint64_t>(from.value()) << 32U | static_cast<std::uint32_t>(to.value());
  }
};

RouteCache::RouteCache() : state_(std::make_unique<State>()) {}
RouteCache::~RouteCache() = default;
RouteCache::RouteCache(RouteCache&&) noexcept = default;
RouteCache& RouteCache::operator=(RouteCache&&) noexcept = default;

const Route* RouteCache::find(RankId from, RankId to) const {
  State::Part& part = state_->of(from);
  const std::lock_guard lock(part.mutex);
  const auto it = part.routes.find(State::key(from, to));
  return it == part.routes.end() ? nullptr : &it->second;
}

const Route& RouteCache::add(RankId from, RankId to, Route route) const {
  State::Part& part = state_->of(from);
  const std::lock_guard lock(part.mutex);
  return part.routes.try_emplace(State::key(from, to), std::move(route)).first->second;
}

}  // namespace moeplan
