// Routes from one rank to all others at once, for traffic in which most pairs occur.
#pragma once

#include <cstdint>
#include <vector>

#include "model/specs/cluster.hpp"
#include "sim/traffic.hpp"

namespace moeplan {

/// The routes of a cluster by one breadth-first search a source, kept for the next question: 256 MiB of them at most.
/// Where a pair has more than one shortest path, and beyond that memory, Cluster::routes is asked. For one thread.
class RouteRows {
 public:
  /// `cluster` must outlive this.
  explicit RouteRows(const Cluster& cluster);
  RouteRows(const RouteRows&) = delete;
  RouteRows& operator=(const RouteRows&) = delete;

  /// What traffic_network(cluster) gives. This must outlive it.
  [[nodiscard]] TrafficNetwork network();

 private:
  /// Links to each rank, ranks in order; none where `is_split`.
  struct Row {
    std::vector<std::uint32_t> first;
    std::vector<LinkId> link;
    std::vector<bool> is_split;
  };
  struct Reached {
    std::int32_t hops = -1;
    LinkId by;                // the last link of a shortest path
    bool is_several = false;  // there is more than one
  };

  void append(RankId src, RankId dst, std::vector<FlowUse>& uses);
  void search(VertexId source);
  void fill(RankId src, Row& row);

  const Cluster& cluster_;
  std::vector<std::size_t> first_out_;  // by vertex, into out_
  std::vector<LinkId> out_;
  std::vector<Row> rows_;  // by source
  std::size_t bytes_ = 0;
  std::vector<Reached> reached_;  // by vertex
  std::vector<VertexId> queue_;
};

}  // namespace moeplan
