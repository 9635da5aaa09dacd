// The machine as a directed graph: GPUs, switches and NICs joined by links of one direction each.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/base/ids.hpp"
#include "model/base/quantity.hpp"

namespace moeplan {

enum class VertexKind { Gpu, PcieSwitch, HostBridge, Nic, NvSwitch, NetworkSwitch };

/// What a link is part of: what-if questions scale all links of a tier together.
enum class LinkTier { IntraNode, Nic, Core };

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
/// transfer is split equally over all paths. GPUs do not forward. Built on demand, a source at a time; safe to share
/// between threads.
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

}  // namespace moeplan
