// The classes of flows into one subtree of a cluster, for destination-uniform all-to-alls
// (destination_uniform_traffic.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/traffic/destination_uniform_shape.hpp"
#include "sim/traffic/source_rates.hpp"
#include "sim/traffic/subtree_traffic.hpp"

namespace moeplan::sim {

/// Writes the max-min problem of one subtree after the other: a class of flows for each destination and each position
/// at which sources join the route to it. Its memory is used again for the next subtree.
class SubtreeClasses {
 public:
  /// `shape` and `bytes`, by destination, must outlive this.
  SubtreeClasses(const DestinationUniformShape& shape, std::span<const double> bytes);

  /// Builds the problem of a subtree with these ranks. Raises TooManyColumns.
  const SubtreeTraffic& build(const std::vector<RankId>& subtree);
  [[nodiscard]] const SubtreeTraffic& traffic() const { return traffic_; }
  /// The destination of each class.
  [[nodiscard]] const std::vector<RankId>& destinations() const { return class_dst_; }

  /// Adds the peaks of the solved problem to the rates of the sources.
  void add_peaks(const SubtreeResult& result, SourceRates& rates) const;

 private:
  using Index = RouteBlocks::Index;

  void add_destination(RankId d);
  /// Adds the classes of the flows to d that join its route in block b, where it enters the block's terminal u.
  void add_crossings(RankId d, std::size_t b, std::size_t u);
  /// Appends the kept links of a route to path_, with this part of their shares.
  void append_kept(std::span<const FlowUse> route, double part);
  /// Adds the class of flows to d over path_ whose rates belong to a sum.
  void add_class(RankId d, double flows, Index sum);
  /// Notes that the source does not send to this destination over the fabric, so that the links on its ascending route
  /// carry less than the sums of the other sources say.
  void note_near(const DestinationUniformShape::NearJoin& n, std::size_t first_class);
  /// Whether the routes join in the block above the vertex, so that the block is crossed and not ascended.
  [[nodiscard]] bool is_across(Index vertex, Index sum) const;

  const DestinationUniformShape& shape_;
  const RouteBlocks& f_;
  std::span<const double> bytes_;
  double uses_left_;
  SubtreeTraffic traffic_;
  std::vector<Index> local_link_;  // by link: its index in the subtree
  std::vector<Index> local_sum_;   // by sum
  std::vector<Index> links_;       // of the subtree
  std::vector<Index> sums_;
  std::vector<RankId> class_dst_;
  std::unordered_map<std::uint64_t, std::size_t> slots_;  // by vertex and sum
  std::vector<Index> slot_vertices_;
  std::vector<FlowUse> path_;  // from the current vertex down to the destination
};

}  // namespace moeplan::sim
