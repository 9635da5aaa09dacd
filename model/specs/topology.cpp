#include "model/specs/topology.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

namespace moeplan {

namespace {

/// A directed link as seen from one of its ends.
struct Arc {
  std::int32_t other;
  LinkId link;
};

/// Arcs by vertex, in the order of the links.
struct Adjacency {
  std::vector<std::uint32_t> first;  // by vertex, and one past the end
  std::vector<Arc> arcs;

  Adjacency(const Topology& t, VertexId Link::*near, VertexId Link::*far)
      : first(t.vertices.size() + 2, 0), arcs(t.links.size()) {
    for (const Link& link : t.links) ++first[(link.*near).index() + 2];
    for (std::size_t v = 2; v < first.size(); ++v) first[v] += first[v - 1];
    for (std::size_t i = 0; i < t.links.size(); ++i) {
      const Link& link = t.links[i];
      arcs[first[(link.*near).index() + 1]++] = {(link.*far).value(), LinkId(i)};
    }
    first.pop_back();
  }
  [[nodiscard]] std::span<const Arc> of(std::int32_t vertex) const {
    const auto v = static_cast<std::size_t>(vertex);
    return std::span(arcs).subspan(first[v], first[v + 1] - first[v]);
  }
};

/// Vertices seen by a search, with their distance: a small open-addressing table.
class Seen {
 public:
  struct Entry {
    std::int32_t vertex = kFree;
    std::int32_t hops = 0;
    std::int32_t position = kUnplaced;  // index in its level of the route
  };
  static constexpr std::int32_t kUnplaced = -1;

  Seen() : table_(64) {}

  [[nodiscard]] Entry* find(std::int32_t vertex) {
    Entry& e = slot(vertex);
    return e.vertex == vertex ? &e : nullptr;
  }
  /// False if it was there.
  bool insert(std::int32_t vertex, std::int32_t hops) {
    Entry& e = slot(vertex);
    if (e.vertex == vertex) return false;
    e = {vertex, hops, kUnplaced};
    if (++size_ * 2 > table_.size()) grow();
    return true;
  }

 private:
  static constexpr std::int32_t kFree = -1;

  [[nodiscard]] Entry& slot(std::int32_t vertex) {
    const std::size_t mask = table_.size() - 1;
    std::size_t i = (static_cast<std::size_t>(vertex) * 0x9E3779B97F4A7C15U >> 32U) & mask;
    while (table_[i].vertex != kFree && table_[i].vertex != vertex) i = (i + 1) & mask;
    return table_[i];
  }
  void grow() {
    std::vector<Entry> old(table_.size() * 2);
    std::swap(old, table_);
    for (const Entry& e : old) {
      if (e.vertex != kFree) slot(e.vertex) = e;
    }
  }

  std::vector<Entry> table_;
  std::size_t size_ = 0;
};

/// One link of the graph of fewest-hop paths; tail and head are positions in the levels at its ends.
struct Step {
  LinkId link;
  std::size_t tail;
  std::size_t head;
};

/// The graph of all fewest-hop paths: level 0 is the source, the last is the destination.
struct PathGraph {
  std::vector<std::size_t> level_size;
  std::vector<std::vector<Step>> steps;  // from each level to the next
};

}  // namespace

struct Routes::State {
  explicit State(const Topology& topology)
      : out(topology, &Link::from, &Link::to), in(topology, &Link::to, &Link::from) {
    for (const Vertex& v : topology.vertices) forwards.push_back(v.kind != VertexKind::Gpu);
    for (const Link& link : topology.links) {
      bandwidth.push_back(link.bandwidth.value());
      latency.push_back(link.latency.value());
    }
  }

  [[nodiscard]] PathGraph fewest_hops(std::int32_t from, std::int32_t to) const;

  Adjacency out;
  Adjacency in;
  std::vector<bool> forwards;     // by vertex
  std::vector<double> bandwidth;  // by link, B/s
  std::vector<double> latency;    // by link, s
};

namespace {

/// One side of the search: all vertices at `hops` from its end.
struct Side {
  const Adjacency* arcs;
  Seen seen;
  std::vector<std::int32_t> frontier;
  std::int32_t hops = 0;

  Side(const Adjacency& adjacency, std::int32_t end) : arcs(&adjacency), frontier{end} { seen.insert(end, 0); }

  [[nodiscard]] std::size_t work() const {
    std::size_t sum = 0;
    for (const std::int32_t v : frontier) sum += arcs->of(v).size();
    return sum;
  }
  /// Goes one hop further, through vertices that forward or to `goal`.
  void advance(const std::vector<bool>& forwards, std::int32_t goal) {
    std::vector<std::int32_t> next;
    ++hops;
    for (const std::int32_t v : frontier) {
      for (const Arc& arc : arcs->of(v)) {
        if (arc.other != goal && !forwards[static_cast<std::size_t>(arc.other)]) continue;
        if (seen.insert(arc.other, hops)) next.push_back(arc.other);
      }
    }
    frontier = std::move(next);
  }
};

/// Where the two searches met: the vertices of `a` that `b` has reached too.
std::vector<std::int32_t> common(const Side& a, Side& b) {
  std::vector<std::int32_t> both;
  for (const std::int32_t v : a.frontier) {
    if (b.seen.find(v)) both.push_back(v);
  }
  return both;
}

/// The steps from a level (given) to the next one away from the middle, and that level.
std::vector<Step> outward(Side& side, const std::vector<std::int32_t>& level, std::int32_t next_hops, bool backward,
                          std::vector<std::int32_t>& next) {
  std::vector<Step> steps;
  for (std::size_t i = 0; i < level.size(); ++i) {
    // The side's own arcs lead away from its end; the path graph needs the arcs towards it.
    for (const Arc& arc : side.arcs->of(level[i])) {
      Seen::Entry* e = side.seen.find(arc.other);
      if (!e || e->hops != next_hops) continue;
      if (e->position == Seen::kUnplaced) {
        e->position = static_cast<std::int32_t>(next.size());
        next.push_back(arc.other);
      }
      const auto position = static_cast<std::size_t>(e->position);
      steps.push_back(backward ? Step{arc.link, position, i} : Step{arc.link, i, position});
    }
  }
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.link < b.link; });
  return steps;
}

}  // namespace

PathGraph Routes::State::fewest_hops(std::int32_t from, std::int32_t to) const {
  Side source(out, from), target(in, to);
  std::vector<std::int32_t> middle;
  while (middle.empty()) {
    if (source.frontier.empty() || target.frontier.empty()) return {};
    if (source.work() <= target.work()) {
      source.advance(forwards, to);
      middle = common(source, target);
    } else {
      target.advance(forwards, from);
      middle = common(target, source);
    }
  }
  // From the middle back to the source against the links, and on to the target along them.
  const auto front = static_cast<std::size_t>(source.hops), back = static_cast<std::size_t>(target.hops);
  PathGraph graph{.level_size = std::vector<std::size_t>(front + back + 1), .steps = {}};
  graph.steps.resize(front + back);
  graph.level_size[front] = middle.size();
  source.arcs = &in;
  target.arcs = &out;
  std::vector<std::int32_t> level = middle;
  for (std::size_t i = front; i-- > 0;) {
    std::vector<std::int32_t> next;
    graph.steps[i] = outward(source, level, static_cast<std::int32_t>(i), true, next);
    graph.level_size[i] = next.size();
    level = std::move(next);
  }
  level = std::move(middle);
  for (std::size_t i = front; i < front + back; ++i) {
    std::vector<std::int32_t> next;
    graph.steps[i] = outward(target, level, static_cast<std::int32_t>(front + back - i - 1), false, next);
    graph.level_size[i + 1] = next.size();
    level = std::move(next);
  }
  return graph;
}

Routes::Routes(const Topology& topology) : state_(std::make_unique<State>(topology)) {}
Routes::~Routes() = default;
Routes::Routes(Routes&&) noexcept = default;
Routes& Routes::operator=(Routes&&) noexcept = default;

Route Routes::between(VertexId from, VertexId to) const {
  assert(from != to && "a route joins two different GPUs");
  const PathGraph graph = state_->fewest_hops(from.value(), to.value());
  if (graph.steps.empty()) return {};

  // The widest bottleneck of any path to each vertex.
  std::vector<double> width{std::numeric_limits<double>::infinity()};
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    std::vector<double> next(graph.level_size[i + 1], 0);
    for (const Step& s : graph.steps[i]) {
      next[s.head] = std::max(next[s.head], std::min(width[s.tail], state_->bandwidth[s.link.index()]));
    }
    width = std::move(next);
  }
  const double widest = width.front();

  // Paths over links at least that wide: how many reach each vertex, and the slowest of them. Counts may be huge, so
  // those of a level are kept relative to the largest; only ratios within a level matter.
  std::vector<std::vector<double>> paths{{1.0}};
  std::vector<double> slowest{0.0};
  for (std::size_t i = 0; i < graph.steps.size(); ++i) {
    std::vector<double> next(graph.level_size[i + 1], 0), next_slowest(graph.level_size[i + 1], 0);
    for (const Step& s : graph.steps[i]) {
      if (state_->bandwidth[s.link.index()] < widest || paths[i][s.tail] == 0) continue;
      next[s.head] += paths[i][s.tail];
      next_slowest[s.head] = std::max(next_slowest[s.head], slowest[s.tail] + state_->latency[s.link.index()]);
    }
    const double most = *std::max_element(next.begin(), next.end());
    if (most > 1e100) {
      for (double& n : next) n /= most;
    }
    paths.push_back(std::move(next));
    slowest = std::move(next_slowest);
  }

  // From the destination back: what a vertex carries comes in over its links as many paths come that way.
  Route route{.links = {}, .latency = Seconds(slowest.front())};
  std::vector<double> carried{1.0};
  for (std::size_t i = graph.steps.size(); i-- > 0;) {
    std::vector<double> arriving(graph.level_size[i + 1], 0), next(graph.level_size[i], 0);
    const auto counts = [&](const Step& s) {
      return state_->bandwidth[s.link.index()] >= widest ? paths[i][s.tail] : 0;
    };
    for (const Step& s : graph.steps[i]) arriving[s.head] += counts(s);
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

}  // namespace moeplan
