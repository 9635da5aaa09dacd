// Symmetry reduction of a cluster: a view of a cluster with equivalent ranks that keeps only a few representatives.
//
// Write ranks in a mixed radix with digits delimited by `boundaries` (R | b1 | b2 | ... | world, each dividing the
// next). A rotation adds a constant to one digit of all ranks, modulo that digit's size. If every rotation is an
// automorphism of the topology (vertices map to vertices, every link to a link of equal bandwidth and latency), then
// the rotations map each rank to every rank that equals it modulo R, and the orbits of links form an equitable
// partition for all traffic that is invariant under the rotations: all links of an orbit carry equal traffic. Max-min
// sharing of the traffic of W ranks then equals that of the flows of ranks 0 .. R - 1 alone, with one resource per
// orbit of capacity (links of the orbit) x bandwidth / (W / R). R is 1 if all ranks are interchangeable; if only nodes
// are (PCIe trees with one NIC), R is the number of ranks per node.
//
// Rings within a range of R ranks rotate with it, and so do rings that cross it in equal steps if their span above R is
// one digit. Other rings are not invariant under the rotations. Their edges are checked by counting instead: the edges
// of all ranks that are equal modulo R must have the same orbits and, within an orbit, cross every link equally often.
// This gives the same partition, so that both kinds of traffic may share links.
//
// A ring over several leaf switches crosses the core on only some of its edges. Core links that never bind are excluded
// from this check and from the sharing: if a link has capacity for everything that the links before it (or after it) on
// its routes can carry, its constraint is implied by theirs and does not affect the max-min allocation. A non-blocking
// core therefore preserves the equivalence of ranks; an oversubscribed core may not. Links that never bind have
// infinite capacity in the view, and each edge counts with its average use of them.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "model/base/ids.hpp"
#include "model/base/quantity.hpp"
#include "model/machine/automorphism.hpp"
#include "model/machine/rings.hpp"
#include "model/machine/topology.hpp"

namespace moeplan {

/// The traffic that the symmetry must preserve.
struct SymmetryQuery {
  std::vector<std::int64_t> boundaries;  // ascending, without 1 and without world
  std::vector<RingFamily> rings;         // ascending
  /// Ranges (low, high) of rank positions that must be one digit, since their traffic depends on differences modulo
  /// high / low.
  std::vector<std::pair<std::int64_t, std::int64_t>> cyclic;
  /// Sizes of ranges of ranks with groups whose members are not interchangeable; each must divide R. Ascending.
  std::vector<std::int64_t> fixed{};
  auto operator<=>(const SymmetryQuery&) const = default;
};

/// The cluster reduced to its representatives.
struct SymmetricView {
  /// A route of the representatives' traffic: the orbits crossed, in order, and its latency.
  struct OrbitRoute {
    std::vector<std::pair<std::int32_t, double>> orbits;  // orbit, fraction of the transfer
    Seconds latency;
    bool operator==(const OrbitRoute&) const = default;
  };

  /// Routes of a ring's edges (RingEdges): averages over all images for links that never bind; the longest latency.
  struct RingRoutes {
    OrbitRoute along;
    OrbitRoute across;
  };

  std::int64_t representatives = 1;  // R: ranks 0 .. R - 1; any other rank is an image of the one equal to it modulo R
  std::vector<std::int64_t>
      digits;                    // R and, ascending, the sizes of ranges that a rotation turns in the next larger one
  std::vector<double> capacity;  // by orbit, bytes/s for the representatives' traffic; infinite: never binds
  std::vector<double>
      bytes_per_link;  // by orbit: bytes on each of its links per byte of the representatives' traffic on the orbit
  std::map<RingFamily, std::vector<RingRoutes>>
      rings;  // rings that are not invariant under the rotations, by representative
  // Where classes of ranks are no images under rotations (rank_classes.hpp): by rank its class; by class the rank that
  // represents it, and how many ranks it has. Otherwise empty. `capacity` is then that of all links of an orbit, and
  // the traffic of a representative counts once for each rank of its class.
  std::vector<std::int32_t> class_of{};
  std::vector<RankId> rank_of{};
  std::vector<double> images{};
  // Large tables, which all views with the same rotations share.
  std::shared_ptr<const std::vector<OrbitRoute>> routes;                   // without duplicates
  std::shared_ptr<const std::vector<std::int32_t>> orbits;                 // by LinkId
  std::shared_ptr<const std::vector<std::vector<std::int32_t>>> route_to;  // by representative and rank: index into
                                                                           // `routes`; itself: -1

  [[nodiscard]] std::int32_t orbit_of(LinkId link) const { return (*orbits)[link.index()]; }
  /// The number of a rank's representative, below `representatives`, and the rank that it is.
  [[nodiscard]] std::size_t number_of(RankId rank) const {
    return class_of.empty() ? rank.index() % static_cast<std::size_t>(representatives)
                            : static_cast<std::size_t>(class_of[rank.index()]);
  }
  [[nodiscard]] RankId representative(std::size_t number) const {
    return rank_of.empty() ? RankId(number) : rank_of[number];
  }
  /// How often a representative's traffic counts.
  [[nodiscard]] double weight(std::size_t number) const { return images.empty() ? 1.0 : images[number]; }
  [[nodiscard]] std::int32_t route_between(RankId representative, RankId to) const {
    return (*route_to)[number_of(representative)][to.index()];
  }
  [[nodiscard]] const OrbitRoute& route(std::int32_t number) const {
    return (*routes)[static_cast<std::size_t>(number)];
  }
  /// What `rank` becomes under the rotations that turn `first`, a multiple of R, into rank 0.
  [[nodiscard]] RankId turned(RankId first, RankId rank) const;
};

/// A cache of computed views, stored with the cluster. Thread-safe.
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

/// The ranks of a job on a topology.
struct RankedTopology {
  const Topology& topology;
  const Routes& routes;
  const std::vector<VertexId>& gpu_of_rank;
  const std::vector<int>& node_of_rank;
  const std::vector<std::int64_t>& natural_boundaries;  // Cluster::natural_boundaries

  [[nodiscard]] std::int64_t world_size() const { return std::ssize(gpu_of_rank); }
  /// Number of consecutive ranks that share a node, if it is the same for every node; otherwise 1.
  [[nodiscard]] std::int64_t ranks_per_node() const;
};

/// The view for this traffic with the fewest representatives, at most the ranks of a node; null if no two ranks can be
/// shown to be images of each other. The natural boundaries are added to the query's. The cache keeps the views, all of
/// one RankedTopology.
[[nodiscard]] const SymmetricView* symmetric_view(const RankedTopology& ranks, const SymmetryCache& cache,
                                                  const SymmetryQuery& query);

/// The image of every link (none: on no rank's routes) when every rank is mapped to the one `shift` above it,
/// cyclically; `shift` divides the number of ranks. Null if that is not shown to be an automorphism. Cached.
[[nodiscard]] const LinkImages* shifted_links(const RankedTopology& ranks, const SymmetryCache& cache,
                                              std::int64_t shift);

}  // namespace moeplan
