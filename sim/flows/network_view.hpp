// The network as the simulated ranks see it: links and ranks, or under symmetry orbits of links and representatives.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/machine/symmetry.hpp"
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
  /// `symmetry` is simulated_view() of both, or null: every rank is simulated.
  NetworkView(const Program& program, const Cluster& cluster, std::shared_ptr<const SymmetricView> symmetry);

  /// The simulated ranks, ascending; rank 0 is one. All are below ranks().
  [[nodiscard]] const std::vector<RankId>& simulated_ranks() const { return simulated_; }
  [[nodiscard]] std::size_t ranks() const { return simulated_.back().index() + 1; }
  /// The rank that represents r in the simulation.
  [[nodiscard]] RankId simulated(RankId r) const {
    return symmetry_ ? symmetry_->representative(symmetry_->number_of(r)) : r;
  }
  /// How many ranks it represents, relative to other simulated ranks.
  [[nodiscard]] double weight(RankId simulated) const {
    return symmetry_ ? symmetry_->weight(symmetry_->number_of(simulated)) : 1.0;
  }
  /// Null if every rank is simulated.
  [[nodiscard]] const SymmetricView* symmetry() const { return symmetry_.get(); }

  /// A simulated rank's place in a family of groups. Groups of equal classes are one.
  struct Place {
    RankId group;          // equal for all simulated ranks of the group: one of them, or its first rank
    std::size_t position;  // in the group, below `size`
    std::size_t size;
  };
  [[nodiscard]] Place place(GroupId family, RankId simulated) const;

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
  [[nodiscard]] const std::vector<Place>& places_of_classes(GroupId family) const;

  const Program& program_;
  const Cluster& cluster_;
  std::shared_ptr<const SymmetricView> symmetry_;  // null if every rank is simulated
  std::vector<RankId> simulated_;
  mutable std::vector<std::vector<Place>> places_;  // by GroupId and class, once they are asked for
};

}  // namespace moeplan::sim
