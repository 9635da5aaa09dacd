// Routes between all ranks from small tables, for traffic in which most pairs occur.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/machine/cluster.hpp"
#include "sim/traffic/traffic.hpp"

namespace moeplan::sim {

/// A vertex that is no GPU and has two neighbours passes on to the one what comes from the other: links in series
/// around it carry the same flows, and of such a chain only the narrowest link can hold anybody back.
///
/// A GPU leaves by few chains ("exits"), each to a vertex that other GPUs use too. Routes from there to all ranks (a
/// "row") are found by one breadth-first search and kept while they fit into `most_bytes`; then all are forgotten and
/// searched for again. Where a pair has more than one shortest path, and where memory is too small for the order of
/// questions, Cluster::routes is asked. For one thread.
class RouteRows {
 public:
  /// `cluster` must outlive this.
  explicit RouteRows(const Cluster& cluster, std::size_t most_bytes = std::size_t{32} << 20);
  RouteRows(const RouteRows&) = delete;
  RouteRows& operator=(const RouteRows&) = delete;

  /// What traffic_network(cluster) gives, but each route without the links that a narrower one in series stands for
  /// (the first, where they are equal): rates are the same. This must outlive it. Cheapest with all questions about
  /// one source in a row.
  [[nodiscard]] TrafficNetwork network();

 private:
  struct Exit {
    LinkId link;  // the narrowest of the chain
    std::int32_t hops;
    std::int32_t row;
  };
  struct Reach {          // a rank, from the row's vertex
    std::uint32_t first;  // of its links in Row::link; the next rank's ends them
    std::int32_t hops;    // -1: not reached
    bool is_several;      // there is more than one shortest path
  };
  struct Row {
    VertexId start;
    std::uint32_t begin = 0;    // the least rank reached
    std::vector<Reach> ranks;   // from `begin` to the largest reached, and an end; empty if none is, or not filled
    std::vector<LinkId> links;  // on shortest paths
    bool is_filled = false;
  };
  struct Reached {
    std::int32_t hops = -1;
    LinkId by;                // the last link of a shortest path
    bool is_several = false;  // there is more than one
  };

  struct Choice {  // an exit of the present source, and what its row holds
    Exit exit;
    std::uint32_t begin;
    std::uint32_t size;
    const Reach* ranks;
    const LinkId* links;
  };

  void find_chains();
  void find_exits();
  [[nodiscard]] std::optional<LinkId> next_in_chain(LinkId link) const;
  void append(RankId src, RankId dst, std::vector<FlowUse>& uses);
  void append_from_cluster(RankId src, RankId dst, std::vector<FlowUse>& uses) const;
  [[nodiscard]] bool turn_to(RankId src);
  void search(VertexId source);
  void fill(Row& row);

  const Cluster& cluster_;
  std::size_t most_bytes_;
  std::vector<std::size_t> first_out_;  // by vertex, into out_
  std::vector<LinkId> out_;
  std::vector<bool> passes_;             // by vertex: it has two neighbours and is no GPU
  std::vector<bool> is_left_out_;        // by link: a narrower one is in series
  std::vector<std::size_t> first_exit_;  // by rank, into exits_
  std::vector<Exit> exits_;
  std::vector<Row> rows_;
  std::size_t bytes_ = 0;  // of all rows
  int times_full_ = 0;
  std::optional<RankId> source_;  // the present one
  std::vector<Choice> choices_;   // of source_
  std::vector<Reached> reached_;  // by vertex
  std::vector<VertexId> queue_;
};

}  // namespace moeplan::sim
