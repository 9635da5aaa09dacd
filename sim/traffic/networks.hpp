// The networks of a cluster, and the pairs of ranks that do not use its fabric.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "model/machine/cluster.hpp"
#include "sim/network/network.hpp"

namespace moeplan::sim {

/// A pair of ranks that uses another network than the fabric, and that network.
struct NearFlow {
  RankId src;
  RankId dst;
  std::int32_t network;
  std::uint32_t first_use;
  std::uint32_t uses;
};

/// Pairs of ranks that do not use the fabric, with the links on their routes.
struct NearFlows {
  std::vector<NearFlow> flows;  // by network, then source and destination
  std::vector<FlowUse> uses;
};

/// A network is a connected set of forwarding vertices, identified by one of them; the fabric is the largest network to
/// which every rank is linked.
class Networks {
 public:
  using Index = std::int32_t;

  /// `cluster` must outlive this. Raises NotFactored if there is no fabric.
  explicit Networks(const Cluster& cluster);

  /// A vertex of the fabric.
  [[nodiscard]] Index fabric() const { return fabric_; }
  [[nodiscard]] bool is_rank(VertexId v) const { return rank_of_[v.index()] >= 0; }
  [[nodiscard]] bool is_fabric_switch(VertexId v) const { return network_[v.index()] == fabric_; }
  [[nodiscard]] bool in_fabric(VertexId v) const { return is_gpu(v) ? is_rank(v) : is_fabric_switch(v); }
  [[nodiscard]] bool in_fabric(const Link& l) const {
    return in_fabric(l.from) && in_fabric(l.to) && !(is_gpu(l.from) && is_gpu(l.to));
  }

  /// The pairs of ranks that another network than the fabric connects. Raises NotFactored if they are too many, or if a
  /// route is split between two networks.
  [[nodiscard]] NearFlows near_flows() const;

 private:
  [[nodiscard]] bool is_gpu(VertexId v) const { return topology_.vertices[v.index()].kind == VertexKind::Gpu; }
  /// The network of a link; -1 for a direct link between two GPUs.
  [[nodiscard]] Index network_of(LinkId link) const;
  void add_near(Index src, Index dst, NearFlows& near) const;

  const Cluster& cluster_;
  const Topology& topology_;
  std::vector<Index> network_;                    // by vertex: -1 for GPUs
  std::vector<Index> rank_of_;                    // by vertex: -1 if it is no rank
  std::vector<std::pair<Index, Index>> members_;  // network, rank
  Index fabric_ = -1;
};

}  // namespace moeplan::sim
