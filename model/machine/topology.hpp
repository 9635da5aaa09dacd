// The cluster's topology: a directed graph of GPUs, switches and NICs connected by unidirectional links.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/ids.hpp"
#include "model/base/quantity.hpp"

namespace moeplan {

enum class VertexKind { Gpu, PcieSwitch, HostBridge, Nic, NvSwitch, NetworkSwitch };

inline constexpr std::array<std::pair<VertexKind, std::string_view>, 6> kVertexKindNames{
    {{VertexKind::Gpu, "gpu"},
     {VertexKind::PcieSwitch, "pcie_switch"},
     {VertexKind::HostBridge, "host_bridge"},
     {VertexKind::Nic, "nic"},
     {VertexKind::NvSwitch, "nvswitch"},
     {VertexKind::NetworkSwitch, "network_switch"}}};

/// The part of the cluster that a link belongs to; what-if analyses scale all links of a tier together. Memory: a GPU's
/// link to itself, for copies between ranks that share the GPU; it does not occur in files.
enum class LinkTier { IntraNode, Nic, Core, Memory };

inline constexpr std::array<std::pair<LinkTier, std::string_view>, 3> kLinkTierNames{
    {{LinkTier::IntraNode, "intra_node"}, {LinkTier::Nic, "nic"}, {LinkTier::Core, "core"}}};

struct Vertex {
  std::string name;
  VertexKind kind;
  std::optional<int> node;  // the node that contains it; none for network switches
  bool operator==(const Vertex&) const = default;
};

/// A unidirectional link; a duplex cable is two of them.
struct Link {
  VertexId from;
  VertexId to;
  BytesPerSecond bandwidth;
  Seconds latency;
  LinkTier tier;
  bool operator==(const Link&) const = default;
};

struct Topology {
  std::vector<Vertex> vertices;
  std::vector<Link> links;
  bool operator==(const Topology&) const = default;

  /// "from -> to", or "memory of GPU" for a link of a GPU to itself.
  [[nodiscard]] std::string link_name(LinkId link) const;
};

/// A link of a route and the fraction of the transfer that crosses it: 1 unless equal-cost paths split the transfer.
struct RouteLink {
  LinkId link;
  double share;
};

struct Route {
  std::vector<RouteLink> links;  // in path order; for a split route, ordered by distance from the source
  Seconds latency;               // of the path with the highest latency
};

/// The links of each vertex that leave it, or that enter it, in the order of the topology's links.
class Adjacency {
 public:
  /// A directed link as seen from one of its ends.
  struct Arc {
    std::int32_t other;  // the vertex at the other end
    LinkId link;
  };

  /// Of links by their ends `near`: &Link::from for those that leave a vertex.
  Adjacency(const Topology& topology, VertexId Link::*near, VertexId Link::*far);

  [[nodiscard]] std::span<const Arc> of(std::int32_t vertex) const {
    const auto v = static_cast<std::size_t>(vertex);
    return std::span(arcs_).subspan(first_[v], first_[v + 1] - first_[v]);
  }

 private:
  std::vector<std::uint32_t> first_;  // by vertex, with one entry past the end
  std::vector<Arc> arcs_;
};

/// Static routing. A path has the fewest hops and, among those, the largest bottleneck bandwidth; the transfer is split
/// equally over all paths that tie. GPUs do not forward.
///
/// Routes are computed on demand by a bidirectional breadth-first search, so that a core switch with thousands of ports
/// is reached but not expanded. Nothing is cached between calls: memory is proportional to the number of links,
/// independent of the number of pairs, and one object may serve many threads. Repeated look-ups use a RouteCache.
class Routes {
 public:
  explicit Routes(const Topology& topology);
  ~Routes();
  Routes(Routes&&) noexcept;
  Routes& operator=(Routes&&) noexcept;

  /// The route between two different GPUs; `links` is empty if there is none.
  [[nodiscard]] Route between(VertexId from, VertexId to) const;
  /// The links that leave each vertex, and those that enter it.
  [[nodiscard]] const Adjacency& leaving() const;
  [[nodiscard]] const Adjacency& entering() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Routes between ranks by their pair. Thread-safe; memory is proportional to the number of pairs.
class RouteCache {
 public:
  RouteCache();
  ~RouteCache();
  RouteCache(RouteCache&&) noexcept;
  RouteCache& operator=(RouteCache&&) noexcept;

  /// The route of the pair, valid as long as the cache; null if there is none yet.
  [[nodiscard]] const Route* find(RankId from, RankId to) const;
  /// Adds a route, unless the pair has one; returns the pair's.
  const Route& add(RankId from, RankId to, Route route) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A pair of GPUs of which the first cannot reach the second (GPUs do not forward), or none. Computed from the strongly
/// connected components of the vertices that forward; if the GPUs have none in common, each GPU is searched separately.
/// Raises InputError if that would take more than 1e9 steps.
[[nodiscard]] std::optional<std::pair<VertexId, VertexId>> unconnected_pair(const Topology& topology,
                                                                            std::span<const VertexId> gpus);

}  // namespace moeplan
