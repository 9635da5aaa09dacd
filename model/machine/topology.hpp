// The machine as a directed graph: GPUs, switches and NICs joined by links of one direction each.
#pragma once

#include <array>
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

/// What a link is part of: what-if questions scale all links of a tier together. Memory: a GPU's own, for copies
/// between ranks that share it; no file names it.
enum class LinkTier { IntraNode, Nic, Core, Memory };

inline constexpr std::array<std::pair<LinkTier, std::string_view>, 3> kLinkTierNames{
    {{LinkTier::IntraNode, "intra_node"}, {LinkTier::Nic, "nic"}, {LinkTier::Core, "core"}}};

struct Vertex {
  std::string name;
  VertexKind kind;
  std::optional<int> node;  // the machine that holds it; none for network switches
  bool operator==(const Vertex&) const = default;
};

/// A duplex cable is two of these.
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

  /// "from -> to", or "memory of GPU" of a link to itself.
  [[nodiscard]] std::string link_name(LinkId link) const;
};

/// The share of a transfer that crosses one link: 1 unless equal-cost paths split it.
struct RouteLink {
  LinkId link;
  double share;
};

struct Route {
  std::vector<RouteLink> links;  // in path order; a split route lists its links by distance from the source
  Seconds latency;               // of the slowest of its paths
};

/// Static routes. A path has the fewest hops; among those, the largest bottleneck bandwidth; among those that tie, the
/// transfer is split equally over all paths. GPUs do not forward.
///
/// A route is found when asked for, by a breadth-first search from both ends that meets in the middle, so that a core
/// with thousands of ports is reached and not crossed. Nothing is kept between calls: memory is that of the links,
/// whatever the number of pairs, and one object may serve many threads. Where a caller asks again, it keeps the answer
/// itself.
class Routes {
 public:
  explicit Routes(const Topology& topology);
  ~Routes();
  Routes(Routes&&) noexcept;
  Routes& operator=(Routes&&) noexcept;

  /// The route between two different GPUs; empty links if there is none.
  [[nodiscard]] Route between(VertexId from, VertexId to) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Two GPUs of which the first cannot reach the second (GPUs do not forward), or nothing. By strongly connected
/// components of the vertices that forward; a machine whose GPUs share none is searched GPU by GPU. Raises InputError
/// where that would take more than 1e9 steps.
[[nodiscard]] std::optional<std::pair<VertexId, VertexId>> unconnected_pair(const Topology& topology,
                                                                            std::span<const VertexId> gpus);

}  // namespace moeplan
