#include "model/machine/never_binding.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace moeplan {

namespace {

using Index = std::int32_t;

class NeverBinding {
 public:
  NeverBinding(const Topology& topology, const std::vector<Index>& orbit, std::size_t orbits,
               std::span<const Route* const> routes)
      : topology_(topology), orbit_(orbit), before_(orbits), behind_(orbits) {
    for (const Route* route : routes) note(*route);
  }

  std::vector<bool> orbits() const {
    const Topology& t = topology_;
    std::vector<std::optional<std::size_t>> example(before_.size());
    for (std::size_t l = 0; l < orbit_.size(); ++l) {
      auto& e = example[static_cast<std::size_t>(orbit_[l])];
      if (!e) e = l;
    }
    std::vector<std::vector<std::size_t>> in(t.vertices.size()), out(t.vertices.size());
    for (std::size_t l = 0; l < t.links.size(); ++l) {
      in[t.links[l].to.index()].push_back(l);
      out[t.links[l].from.index()].push_back(l);
    }
    std::vector<bool> result(before_.size(), false);
    for (std::size_t o = 0; o < before_.size(); ++o) {
      if (!example[o]) continue;
      const Link& link = t.links[*example[o]];
      if (link.tier != LinkTier::Core) continue;  // only links of other tiers can imply a constraint
      result[o] = follows(link, before_[o], in[link.from.index()]) || follows(link, behind_[o], out[link.to.index()]);
    }
    return result;
  }

 private:
  struct Neighbours {
    double part = 0;
    std::set<Index> orbits;
    bool all_known = true;
  };

  void note(const Route& route) {
    const std::vector<Link>& links = topology_.links;
    std::map<VertexId, double> entering, leaving;
    for (const RouteLink& l : route.links) {
      entering[links[l.link.index()].to] += l.share;
      leaving[links[l.link.index()].from] += l.share;
    }
    for (const RouteLink& l : route.links) {
      const Link& link = links[l.link.index()];
      const auto o = static_cast<std::size_t>(orbit_[l.link.index()]);
      const auto add = [&](Neighbours& n, const std::map<VertexId, double>& through, VertexId at, bool is_before) {
        const auto it = through.find(at);
        if (it == through.end()) {
          n.all_known = false;
          return;
        }
        n.part = std::max(n.part, l.share / it->second);
        for (const RouteLink& other : route.links) {
          const Link& neighbour = links[other.link.index()];
          if ((is_before ? neighbour.to : neighbour.from) == at) n.orbits.insert(orbit_[other.link.index()]);
        }
      };
      add(before_[o], entering, link.from, true);
      add(behind_[o], leaving, link.to, false);
    }
  }

  bool follows(const Link& link, const Neighbours& n, const std::vector<std::size_t>& at) const {
    if (!n.all_known || n.orbits.empty()) return false;
    double capacity = 0;
    for (const std::size_t l : at) {
      if (!n.orbits.contains(orbit_[l])) continue;
      const Link& neighbour = topology_.links[l];
      if (neighbour.tier == LinkTier::Core) return false;
      if (neighbour.from == link.to && neighbour.to == link.from) continue;  // the other direction of the same cable
      capacity += neighbour.bandwidth.value();
    }
    return n.part * capacity <= link.bandwidth.value() * (1 + 1e-12);
  }

  const Topology& topology_;
  const std::vector<Index>& orbit_;
  std::vector<Neighbours> before_, behind_;  // by orbit
};

}  // namespace

std::vector<bool> never_binding(const Topology& topology, const std::vector<std::int32_t>& orbit, std::size_t orbits,
                                std::span<const Route* const> routes) {
  return NeverBinding(topology, orbit, orbits, routes).orbits();
}

}  // namespace moeplan
