// The network as the simulated ranks see it: links and ranks, or under symmetry orbits of links and representatives.
#pragma once

#include <cstdint>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"
#include "sim/network/network.hpp"

namespace moeplan::sim {

/// Equal transfers of one rank: several only where it represents others.
struct Transfer {
  RankId from;
  RankId to;  // one of the receivers
  std::int64_t bytes;
  double weight;
};

/// Without symmetry, every rank is simulated and every link is a resource of the network. Under symmetry
/// (symmetry.hpp), the representatives are simulated, any other rank is an image of one, and every orbit of links is a
/// resource. `program` and `cluster` must outlive the view.
class NetworkView {
 public:
  /// Uses symmetry if `use_symmetry` and the Program's ranks have representatives.
  NetworkView(const Program& program, const Cluster& cluster, bool use_symmetry);

  /// Number of simulated ranks: ranks 0 .. ranks() - 1.
  [[nodiscard]] std::size_t ranks() const { return ranks_; }
  /// The rank that represents r in the simulation.
  [[nodiscard]] RankId simulated(RankId r) const { return RankId(r.index() % ranks_); }
  [[nodiscard]] bool is_symmetric() const { return symmetry_ != nullptr; }

  [[nodiscard]] std::size_t resources() const;
  /// Capacity of each resource in bytes/s, by ResourceId.
  [[nodiscard]] std::vector<double> capacities() const;
  [[nodiscard]] ResourceId resource_of(LinkId link) const;
  /// Bytes on the link per byte on its resource.
  [[nodiscard]] double bytes_on_link(LinkId link) const;

  /// The transfers of a communication in the group of r. Under symmetry, only those sent by representatives, merged by
  /// ends, size and path; transfers to images of a representative represent those that it receives.
  [[nodiscard]] std::vector<Transfer> transfers(const Operation& operation, RankId r) const;
  [[nodiscard]] Seconds latency(const Operation& operation, RankId from, RankId to) const;
  /// Appends the resources on the route of a transfer between different ranks.
  void append_uses(const Operation& operation, RankId from, RankId to, std::vector<FlowUse>& uses) const;

 private:
  [[nodiscard]] std::vector<Transfer> merged_transfers(const Operation& operation, RankId r) const;

  const Program& program_;
  const Cluster& cluster_;
  const SymmetricView* symmetry_;  // null if every rank is simulated
  std::size_t ranks_;
};

}  // namespace moeplan::sim
