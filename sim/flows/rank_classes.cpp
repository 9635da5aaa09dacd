#include "sim/flows/rank_classes.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/costs/communication.hpp"
#include "model/program/equal_ranks.hpp"
#include "model/program/resolve.hpp"
#include "model/program/same_work.hpp"

namespace moeplan::sim {

namespace {

using Colour = std::uint64_t;
// Assumed: so few ranks, also in relation to all, are simulated sooner than classes are found.
constexpr std::int64_t kFew = 8, kRanksToOne = 64;
constexpr std::size_t kMostFlows = std::size_t{1} << 22U;  // assumed: limits their memory to about 170 MB

Colour mixed(Colour a, Colour b) {
  Colour x = a * 0x9E3779B97F4A7C15U + b;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}
Colour colour_of(double x) { return std::bit_cast<Colour>(x); }

std::size_t distinct(std::vector<Colour> colours) {
  std::sort(colours.begin(), colours.end());
  return static_cast<std::size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
}

/// Whether a link between network switches has the bandwidth of all links `at` its tail or head, but for the other
/// direction of its own cable: their constraints then imply its own. Only links of other tiers can.
bool is_ample(const Topology& topology, const Link& link, const std::vector<std::size_t>& at) {
  BytesPerSecond others(0);
  for (const std::size_t l : at) {
    const Link& other = topology.links[l];
    if (other.from == link.to && other.to == link.from) continue;
    if (other.tier == LinkTier::Core) return false;
    others += other.bandwidth;
  }
  return others <= link.bandwidth * (1 + 1e-12);
}

/// The core links that never bind, whatever the routes are: fewer than never_binding() finds for some routes.
std::vector<bool> ample_links(const Topology& topology) {
  std::vector<std::vector<std::size_t>> in(topology.vertices.size()), out(topology.vertices.size());
  for (std::size_t l = 0; l < topology.links.size(); ++l) {
    in[topology.links[l].to.index()].push_back(l);
    out[topology.links[l].from.index()].push_back(l);
  }
  std::vector<bool> ample;
  for (const Link& l : topology.links) {
    ample.push_back(l.tier == LinkTier::Core &&
                    (is_ample(topology, l, in[l.from.index()]) || is_ample(topology, l, out[l.to.index()])));
  }
  return ample;
}

/// The ranks and links of a Program's communications, coloured.
class Refinement {
 public:
  Refinement(const Program& program, const Cluster& cluster)
      : program_(program), cluster_(cluster), ample_(ample_links(cluster.topology)), pairs_of_(ranks()) {}

  /// Null if sources differ, with messages between ranks or too many flows, or if there are `most` classes or more.
  std::shared_ptr<const SymmetricView> view(std::size_t most) {
    for (const std::int32_t kind : kinds_of_ranks(program_)) ranks_.push_back(mixed(1, static_cast<Colour>(kind)));
    if (ranks_.empty()) return nullptr;
    for (const Link& l : cluster_.topology.links) {
      const auto kind = [&](VertexId v) { return static_cast<Colour>(cluster_.topology.vertices[v.index()].kind); };
      links_.push_back(mixed(mixed(colour_of(l.bandwidth.value()), kind(l.from)), kind(l.to)));
    }
    if (!collect() || !refine(most)) return nullptr;
    return made();
  }

 private:
  struct Pair {
    RankId to;
    Colour bytes;                  // of all communications from one to the other
    bool waits;                    // some flow starts by its own route's latency
    const Route* route = nullptr;  // of the cluster's cache
    Colour colour = 0;
  };

  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(program_.world_size); }

  /// The pairs of all communications; false if these have too many flows, or with messages between ranks.
  bool collect() {
    std::vector<const Operation*> known;
    for (const Block& block : program_.blocks) {
      for (const Operation& op : block.operations) {
        const auto* send = std::get_if<Send>(&op.work);
        if (send && program_.group(send->group).size > 1) return false;
        if (!op.communication()) continue;
        const auto same = [&](const Operation* other) { return same_work(program_, *other, op); };
        if (std::any_of(known.begin(), known.end(), same)) continue;
        known.push_back(&op);
        if (!add(op, known.size())) return false;
      }
    }
    for (std::size_t r = 0; r < pairs_of_.size(); ++r) merge(RankId(r));
    return true;
  }

  /// One pair for all flows from one rank to another.
  void merge(RankId from) {
    std::vector<Pair>& pairs = pairs_of_[from.index()];
    std::sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.to < b.to; });
    std::size_t kept = 0;
    for (const Pair& p : pairs) {
      if (kept > 0 && pairs[kept - 1].to == p.to) {
        pairs[kept - 1].bytes += p.bytes;
        pairs[kept - 1].waits |= p.waits;
      } else {
        pairs[kept++] = p;
      }
    }
    pairs.resize(kept);
    for (Pair& p : pairs) {
      p.route = &cluster_.cached_route(from, p.to);
      if (p.waits) p.bytes = mixed(p.bytes, colour_of(p.route->latency.value()));
    }
  }

  bool add(const Operation& op, Colour number) {
    const GroupFamily& family = program_.group(op.communication()->group);
    const bool in_rings = runs_in_rings(*op.communication());
    if (in_rings && family.size > 1) rings_.insert({family.size, family.stride, members_per_node(program_, family)});
    for (std::size_t r = 0; r < ranks(); ++r) {
      const RankId base(r);
      if (family.base(base) != base) continue;
      const std::vector<Flow> flows = group_flows(program_, op, base);
      const CommunicationCost cost = communication_cost(program_, op, base, cluster_);
      Colour group = mixed(mixed(number, colour_of(cost.startup.value())), cost.add_route_latency ? 1 : 0);
      group = mixed(group, colour_of(cost.rate_cap ? cost.rate_cap->value() : 0.0));
      if (in_rings) group = mixed(group, colour_of(longest_latency(flows)));
      for (std::int64_t p = 0; p < family.size; ++p) {
        Colour& member = ranks_[family.member(base, p).index()];
        member = mixed(member, group);
      }
      for (const Flow& f : flows)
        pairs_of_[f.from.index()].push_back({f.to, mixed(group, static_cast<Colour>(f.bytes)), !in_rings});
      flows_ += flows.size();
      if (flows_ > kMostFlows) return false;
    }
    return true;
  }

  double longest_latency(const std::vector<Flow>& flows) const {
    double out = 0;
    for (const Flow& f : flows) out = std::max(out, cluster_.cached_route(f.from, f.to).latency.value());
    return out;
  }

  /// False once there are `most` classes.
  bool refine(std::size_t most) {
    for (std::size_t classes = 0;;) {
      const std::size_t of_ranks = distinct(ranks_), all = of_ranks + distinct(links_);
      if (of_ranks >= most) return false;
      if (all == classes) return true;
      classes = all;
      std::vector<Colour> ranks(ranks_.size(), 0), links(links_.size(), 0);  // sums over their pairs
      for (std::size_t r = 0; r < pairs_of_.size(); ++r) {
        for (Pair& p : pairs_of_[r]) {
          Colour path = 0;
          for (const RouteLink& l : p.route->links) {
            if (!ample_[l.link.index()]) path += mixed(links_[l.link.index()], colour_of(l.share));
          }
          p.colour = mixed(mixed(mixed(p.bytes, ranks_[r]), ranks_[p.to.index()]), path);
          ranks[r] += mixed(p.colour, 1);
          ranks[p.to.index()] += mixed(p.colour, 2);
          for (const RouteLink& l : p.route->links) links[l.link.index()] += mixed(p.colour, colour_of(l.share));
        }
      }
      for (std::size_t r = 0; r < ranks.size(); ++r) ranks_[r] = mixed(ranks_[r], ranks[r]);
      for (std::size_t l = 0; l < links.size(); ++l) links_[l] = mixed(links_[l], links[l]);
    }
  }

  /// Numbers of colours in the order of their first use.
  static std::vector<std::int32_t> numbered(const std::vector<Colour>& colours) {
    std::unordered_map<Colour, std::int32_t> numbers;
    std::vector<std::int32_t> out;
    for (const Colour c : colours)
      out.push_back(numbers.try_emplace(c, static_cast<std::int32_t>(numbers.size())).first->second);
    return out;
  }

  /// The view by the present colours, which are stable.
  std::shared_ptr<const SymmetricView> made() {
    auto view = std::make_shared<SymmetricView>();
    view->class_of = numbered(ranks_);
    for (std::size_t r = 0; r < ranks(); ++r) {
      const auto c = static_cast<std::size_t>(view->class_of[r]);
      if (c == view->rank_of.size()) {
        view->rank_of.emplace_back(r);
        view->images.push_back(0);
      }
      view->images[c] += 1;
    }
    view->representatives = std::ssize(view->rank_of);
    const std::vector<std::int32_t> orbit = numbered(links_);
    const std::size_t orbits =
        orbit.empty() ? 0 : static_cast<std::size_t>(*std::max_element(orbit.begin(), orbit.end())) + 1;
    view->capacity.assign(orbits, 0.0);
    view->bytes_per_link.assign(orbits, 0.0);
    for (std::size_t l = 0; l < orbit.size(); ++l) {
      const auto o = static_cast<std::size_t>(orbit[l]);
      view->capacity[o] +=
          ample_[l] ? std::numeric_limits<double>::infinity() : cluster_.topology.links[l].bandwidth.value();
      view->bytes_per_link[o] += 1;
    }
    for (double& n : view->bytes_per_link) n = 1 / n;
    set_routes(*view, orbit);
    set_rings(*view);
    view->orbits = std::make_shared<const std::vector<std::int32_t>>(orbit);
    return view;
  }

  /// The routes of pairs of one colour, over ample links on the average of all.
  void set_routes(SymmetricView& view, const std::vector<std::int32_t>& orbit) {
    struct Mean {
      double pairs = 0;
      std::map<std::int32_t, double> ample{};
    };
    std::unordered_map<Colour, Mean> means;
    for (const std::vector<Pair>& pairs : pairs_of_) {
      for (const Pair& p : pairs) {
        Mean& mean = means[p.colour];
        mean.pairs += 1;
        for (const RouteLink& l : p.route->links) {
          if (ample_[l.link.index()]) mean.ample[orbit[l.link.index()]] += l.share;
        }
      }
    }
    std::vector<SymmetricView::OrbitRoute> routes;
    std::unordered_map<Colour, std::int32_t> numbers;
    std::vector<std::vector<std::int32_t>> route_to;
    for (const RankId from : view.rank_of) {
      std::vector<std::int32_t>& to = route_to.emplace_back(ranks(), -1);
      for (const Pair& p : pairs_of_[from.index()]) {
        const auto [it, is_new] = numbers.try_emplace(p.colour, static_cast<std::int32_t>(routes.size()));
        to[p.to.index()] = it->second;
        if (!is_new) continue;
        std::map<std::int32_t, double> shares;
        for (const RouteLink& l : p.route->links) {
          if (!ample_[l.link.index()]) shares[orbit[l.link.index()]] += l.share;
        }
        const Mean& mean = means[p.colour];
        for (const auto& [o, share] : mean.ample) shares[o] += share / mean.pairs;
        SymmetricView::OrbitRoute& made = routes.emplace_back();
        made.latency = p.route->latency;  // of a ring it may differ: set_rings()
        for (auto [o, share] : shares) {  // a route may cross several links of an orbit one after another
          for (; share > 1 + 1e-9; share -= 1) made.orbits.emplace_back(o, 1.0);
          made.orbits.emplace_back(o, std::min(share, 1.0));
        }
      }
    }
    view.routes = std::make_shared<const std::vector<SymmetricView::OrbitRoute>>(std::move(routes));
    view.route_to = std::make_shared<const std::vector<std::vector<std::int32_t>>>(std::move(route_to));
  }

  [[nodiscard]] bool are_pair(RankId from, RankId to) const {
    const std::vector<Pair>& pairs = pairs_of_[from.index()];
    const auto it = std::lower_bound(pairs.begin(), pairs.end(), to, [](const Pair& p, RankId r) { return p.to < r; });
    return it != pairs.end() && it->to == to;
  }

  /// Rings wait for the longest latency among their edges.
  void set_rings(SymmetricView& view) const {
    for (const RingFamily& ring : rings_) {
      std::vector<SymmetricView::RingRoutes>& routes = view.rings[ring];
      for (const RankId from : view.rank_of) {
        const std::int64_t position = from.value() / ring.stride % ring.size;
        const std::int64_t base = from.value() - position * ring.stride;
        const auto member = [&](std::int64_t at) { return RankId(static_cast<std::int32_t>(base + at * ring.stride)); };
        Seconds longest;
        for (std::int64_t p = 0; p < ring.size; ++p) {
          const RingEdges edges = ring_edges(p, ring.size, ring.per_node);
          for (const std::int64_t to : {edges.along, edges.across}) {
            if (are_pair(member(p), member(to)))
              longest = std::max(longest, cluster_.cached_route(member(p), member(to)).latency);
          }
        }
        const RingEdges own = ring_edges(position, ring.size, ring.per_node);
        const auto route = [&](std::int64_t to) {
          if (!are_pair(from, member(to))) return SymmetricView::OrbitRoute{};
          SymmetricView::OrbitRoute out = view.route(view.route_between(from, member(to)));
          out.latency = longest;
          return out;
        };
        routes.push_back({route(own.along), route(own.across)});
      }
    }
  }

  const Program& program_;
  const Cluster& cluster_;
  const std::vector<bool> ample_;            // by LinkId
  std::vector<Colour> ranks_, links_;        // colours, by RankId and LinkId
  std::vector<std::vector<Pair>> pairs_of_;  // by the sender, then by the receiver
  std::size_t flows_ = 0;
  std::set<RingFamily> rings_;
};

}  // namespace

std::shared_ptr<const SymmetricView> simulated_view(const Program& program, const Cluster& cluster) {
  const SymmetricView* rotated = representatives_view(program, cluster);
  const std::shared_ptr<const SymmetricView> known(std::shared_ptr<const void>(), rotated);
  if (rotated && rotated->representatives <= std::max(kFew, program.world_size / kRanksToOne)) return known;
  if (program.world_size != cluster.world_size() || program.stages.size() > 1 || cluster.ranks_per_gpu > 1)
    return known;
  const std::int64_t most = rotated ? rotated->representatives : program.world_size;
  const std::shared_ptr<const SymmetricView> refined =
      Refinement(program, cluster).view(static_cast<std::size_t>(most));
  return refined ? refined : known;
}

}  // namespace moeplan::sim
