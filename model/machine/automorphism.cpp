#include "model/machine/automorphism.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "model/base/random.hpp"

namespace moeplan {

namespace {

/// The link properties that an automorphism preserves.
using LinkKind = std::tuple<double, double, int>;

LinkKind kind_of(const Link& l) { return {l.bandwidth.value(), l.latency.value(), static_cast<int>(l.tier)}; }

struct Signed {
  std::uint64_t signature;
  Automorphisms::Index vertex;
  auto operator<=>(const Signed&) const = default;
};

}  // namespace

Automorphisms::Automorphisms(const Topology& topology) : first_(topology.vertices.size() + 1, 0) {
  std::map<LinkKind, Index> kinds;
  std::vector<Index> kind_of_link;
  for (const Link& link : topology.links) {
    kind_of_link.push_back(kinds.try_emplace(kind_of(link), static_cast<Index>(kinds.size())).first->second);
    ++first_[link.from.index() + 1];
    ++first_[link.to.index() + 1];
  }
  for (std::size_t v = 1; v < first_.size(); ++v) first_[v] += first_[v - 1];
  std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
  neighbours_.resize(topology.links.size() * 2);
  for (std::size_t l = 0; l < topology.links.size(); ++l) {
    const Link& link = topology.links[l];
    const auto id = static_cast<Index>(l);
    neighbours_[next[link.from.index()]++] = {link.to.value(), 2 * kind_of_link[l] + 1, id};
    neighbours_[next[link.to.index()]++] = {link.from.value(), 2 * kind_of_link[l], id};
  }
  for (std::size_t v = 0; v + 1 < first_.size(); ++v) {
    const auto begin = neighbours_.begin() + static_cast<std::ptrdiff_t>(first_[v]);
    const auto end = neighbours_.begin() + static_cast<std::ptrdiff_t>(first_[v + 1]);
    if (!std::is_sorted(begin, end)) std::sort(begin, end);
  }
}

std::optional<LinkImages> Automorphisms::links(const std::vector<VertexId>& gpus,
                                               const std::vector<Index>& turned) const {
  std::vector<Index> image(first_.size() - 1, -1);
  std::vector<char> taken(first_.size() - 1, 0);
  std::vector<Index> front;
  for (std::size_t r = 0; r < gpus.size(); ++r) {
    image[gpus[r].index()] = gpus[static_cast<std::size_t>(turned[r])].value();
    taken[gpus[r].index()] = 1;
    front.push_back(gpus[r].value());
  }
  while (!front.empty()) {
    auto next = grow(front, image, taken);
    if (!next) return std::nullopt;
    front = std::move(*next);
  }
  return verified(image);
}

std::span<const Automorphisms::Neighbour> Automorphisms::of(Index vertex) const {
  const auto v = static_cast<std::size_t>(vertex);
  return std::span(neighbours_).subspan(first_[v], first_[v + 1] - first_[v]);
}

/// Maps the neighbours of `front`, those of each of its vertices to those of the vertex's image; none if one has no
/// counterpart.
std::optional<std::vector<Automorphisms::Index>> Automorphisms::grow(const std::vector<Index>& front,
                                                                     std::vector<Index>& image,
                                                                     std::vector<char>& taken) const {
  constexpr char kListed = 2;
  std::vector<Signed> sources, targets;  // of one vertex: those of equal signatures have the same mapped neighbours
  std::vector<std::pair<Index, Index>> matched;
  std::vector<Index> listed_targets;
  std::vector<char> listed(image.size(), 0);
  const auto sign = [](Index vertex, Index kind) {
    return mixed(static_cast<std::uint64_t>(vertex) << 32U | static_cast<std::uint32_t>(kind));
  };
  for (const Index v : front) {
    sources.clear();
    targets.clear();
    for (const Neighbour& n : of(v)) {
      const auto i = static_cast<std::size_t>(n.vertex);
      if (image[i] >= 0 || listed[i]) continue;
      listed[i] = 1;
      std::uint64_t sum = 0;
      for (const Neighbour& m : of(n.vertex)) {
        if (const Index to = image[static_cast<std::size_t>(m.vertex)]; to >= 0) sum += sign(to, m.kind);
      }
      sources.push_back({sum, n.vertex});
    }
    for (const Neighbour& n : of(image[static_cast<std::size_t>(v)])) {
      const auto i = static_cast<std::size_t>(n.vertex);
      if (taken[i]) continue;
      taken[i] = kListed;
      std::uint64_t sum = 0;
      for (const Neighbour& m : of(n.vertex)) {
        if (taken[static_cast<std::size_t>(m.vertex)] == 1) sum += sign(m.vertex, m.kind);
      }
      targets.push_back({sum, n.vertex});
      listed_targets.push_back(n.vertex);
    }
    std::sort(sources.begin(), sources.end());
    std::sort(targets.begin(), targets.end());
    std::size_t t = 0;
    for (const Signed& s : sources) {
      while (t < targets.size() && targets[t].signature < s.signature) ++t;
      if (t == targets.size() || targets[t].signature != s.signature) return std::nullopt;
      matched.emplace_back(s.vertex, targets[t++].vertex);
    }
  }
  for (const Index t : listed_targets) taken[static_cast<std::size_t>(t)] = 0;
  std::vector<Index> next;
  for (const auto& [source, target] : matched) {
    image[static_cast<std::size_t>(source)] = target;
    taken[static_cast<std::size_t>(target)] = 1;
    next.push_back(source);
  }
  return next;
}

/// The links between two vertices in `from`'s list: the first, and one past the last.
std::pair<const Automorphisms::Neighbour*, const Automorphisms::Neighbour*> Automorphisms::between(Index from,
                                                                                                   Index to) const {
  const auto list = of(from);
  const auto less = [](const Neighbour& n, Index vertex) { return n.vertex < vertex; };
  const auto greater = [](Index vertex, const Neighbour& n) { return vertex < n.vertex; };
  const auto begin = std::lower_bound(list.begin(), list.end(), to, less);
  const auto end = std::upper_bound(begin, list.end(), to, greater);
  return {list.data() + (begin - list.begin()), list.data() + (end - list.begin())};
}

std::optional<LinkImages> Automorphisms::verified(const std::vector<Index>& image) const {
  std::vector<Index> links(neighbours_.size() / 2, -1);
  for (std::size_t v = 0; v + 1 < first_.size(); ++v) {
    const auto own = of(static_cast<Index>(v));
    for (std::size_t i = 0; i < own.size();) {
      const std::size_t begin = i;
      while (i < own.size() && own[i].vertex == own[begin].vertex) ++i;
      // Once per connected pair, from the end with fewer links: its image has equally few.
      const std::size_t other = of(own[begin].vertex).size();
      if (std::pair(own.size(), static_cast<Index>(v)) > std::pair(other, own[begin].vertex)) continue;
      const Index from = image[v], to = image[static_cast<std::size_t>(own[begin].vertex)];
      if (from < 0 && to < 0) continue;  // not connected to any rank
      if (from < 0 || to < 0) return std::nullopt;
      const auto [first, last] = between(from, to);
      if (static_cast<std::size_t>(last - first) != i - begin) return std::nullopt;
      for (std::size_t k = begin; k < i; ++k) {
        const Neighbour& there = first[k - begin];
        if (there.kind != own[k].kind) return std::nullopt;
        links[static_cast<std::size_t>(own[k].link)] = there.link;
      }
    }
  }
  return LinkImages(links);
}

}  // namespace moeplan
