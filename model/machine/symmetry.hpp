// Machines on which ranks cannot be told from one another, seen through a few of them: the representatives.
//
// Write ranks in a mixed radix, digits cut at `boundaries` (R | b1 | b2 | ... | world, each dividing the next). If
// turning any one digit of all ranks at once is an automorphism of the topology (vertices map to vertices, every link
// to one of equal bandwidth and latency), then these turns take each rank to every one that equals it modulo R, and the
// orbits of links are an equitable partition for every traffic that the turns preserve: each link of an orbit carries
// as much of it as any other. So max-min sharing of W ranks' traffic is that of the flows of ranks 0 .. R - 1 alone on
// one resource an orbit, with the capacity (links of the orbit) x bandwidth / (W / R). R is 1 where no rank can be told
// from another; where only a node's ranks can (PCIe trees with one NIC), it is the ranks of a node.
//
// Rings inside a range of R ranks turn with it, and so do those that cross it in equal steps, where what they span
// above R is one digit. Other rings do not turn with their digits. Their edges are checked by counting instead: the
// edges of all ranks that are equal modulo R have the same orbits, and within an orbit they cross every link equally
// often. That is the same partition, so both may share links.
//
// A ring over several leaf switches crosses the core on some of its edges only. Links of the core that never bind are
// left out of that check and of the sharing: where a link has room for all that the links before it (or behind it) on
// its routes can carry, its constraint follows from theirs, and max-min rates do not depend on it. So a non-blocking
// core does not tell ranks apart; an oversubscribed one does. Such links have infinite capacity in the view, and count
// each edge's average use.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "model/base/ids.hpp"
#include "model/base/quantity.hpp"
#include "model/machine/topology.hpp"

namespace moeplan {

struct Cluster;

/// A family of rings over ranks: groups of `size` ranks, `stride` apart, `per_node` consecutive members a node.
struct RingFamily {
  std::int64_t size;
  std::int64_t stride;
  std::int64_t per_node;
  auto operator<=>(const RingFamily&) const = default;
};

/// What traffic must be preserved.
struct SymmetryQuery {
  std::vector<std::int64_t> boundaries;  // ascending, without 1 and without world
  std::vector<RingFamily> rings;         // ascending
  /// Ranges (low, high) of places that must be one digit, since traffic goes by differences modulo high / low there.
  std::vector<std::pair<std::int64_t, std::int64_t>> cyclic;
  /// Ranges of so many ranks in which groups lie whose members' places make a difference: divide R. Ascending.
  std::vector<std::int64_t> fixed{};
  auto operator<=>(const SymmetryQuery&) const = default;
};

/// The machine as its representatives see it.
struct SymmetricView {
  /// A way that their traffic may take: orbits crossed, in order, and its latency.
  struct Way {
    std::vector<std::pair<std::int32_t, double>> orbits;  // orbit, share
    Seconds latency;
    bool operator==(const Way&) const = default;
  };

  /// Ways of a ring's edges (RingEdges), as averages over all images where links never bind; the longest latency.
  struct RingWays {
    Way along;
    Way across;
  };

  std::int64_t representatives = 1;  // R: ranks 0 .. R - 1; any other rank is an image of the one it equals modulo R
  std::vector<double> capacity;      // by orbit, bytes/s for the representatives' traffic; infinite: never binds
  std::vector<std::int32_t> orbit_of_link;            // by LinkId
  std::vector<double> bytes_per_link;                 // by orbit: bytes on each link for one of theirs on the orbit
  std::vector<Way> ways;                              // distinct ones
  std::vector<std::vector<std::int32_t>> way_to;      // by representative and rank: index into ways; to itself: -1
  std::map<RingFamily, std::vector<RingWays>> rings;  // those that do not turn: by representative

  [[nodiscard]] std::int32_t way_between(RankId representative, RankId to) const {
    return way_to[representative.index()][to.index()];
  }
};

/// Views that were asked for, kept with the cluster. Safe to share between threads.
class SymmetryCache {
 public:
  SymmetryCache();
  ~SymmetryCache();
  SymmetryCache(SymmetryCache&&) noexcept;
  SymmetryCache& operator=(SymmetryCache&&) noexcept;

  struct State;
  [[nodiscard]] State& state() const { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

/// The view for this traffic with the fewest representatives, at most the ranks of a node; null where no two ranks are
/// images of one another (or it cannot be shown that they are). Boundaries of the machine itself
/// (Cluster::natural_boundaries) are added to the query's.
[[nodiscard]] const SymmetricView* symmetric_view(const Cluster& cluster, const SymmetryQuery& query);

/// Where the edges of a ring lead: one ring for each member of a node (`per_node`), ring c entering each node at its
/// c-th member and leaving it at the one before. So from position p: `along` inside the node carries all rings but one,
/// `across` to the next node that one. A group within one node, or with one member a node, has the plain ring as
/// `along` alone.
struct RingEdges {
  std::int64_t along;
  std::int64_t across;  // == own position where there is none
};
[[nodiscard]] RingEdges ring_edges(std::int64_t position, std::int64_t size, std::int64_t per_node);

}  // namespace moeplan
