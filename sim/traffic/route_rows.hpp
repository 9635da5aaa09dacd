// Routes between all ranks from small cached tables, for traffic in which most pairs occur.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/machine/cluster.hpp"
#include "sim/traffic/traffic.hpp"

namespace moeplan::sim {

/// A route cache that merges links in series and stores the routes from one vertex to all ranks as a row.
///
/// A vertex that is no GPU and has exactly two neighbours forwards all traffic of one to the other: the links in series
/// around it carry the same flows, and only the link of lowest bandwidth in such a chain can limit a flow.
///
/// Traffic leaves a GPU by a few chains ("exits"), each of which ends at a vertex that other GPUs use too. The routes
/// from that vertex to all ranks (a "row") are found by one breadth-first search and kept while all rows fit into
/// `most_bytes`; then the cache is cleared. Pairs with more than one shortest path are answered by Cluster::routes, and
/// so are all pairs once the cache has been cleared too often. Not thread-safe.
class RouteRows {
 public:
  /// `cluster` must outlive this.
  explicit RouteRows(const Cluster& cluster, std::size_t most_bytes = std::size_t{32} << 20);
  RouteRows(const RouteRows&) = delete;
  RouteRows& operator=(const RouteRows&) = delete;

  /// A network with the same rates as the links and routes of the cluster, whose routes have only the link of lowest
  /// bandwidth of each chain (the first, if equal). This object must outlive it. Fastest if all routes of one source
  /// are requested consecutively.
  [[nodiscard]] TrafficNetwork network();

 private:
  struct Exit {
    LinkId link;  // the link of lowest bandwidth of the chain
    std::int32_t hops;
    std::int32_t row;
  };
  struct Reach {          // the routes from the row's vertex to one rank
    std::uint32_t first;  // index of its first link in Row::links; they end where the next rank's begin
    std::int32_t hops;    // -1: not reached
    bool is_several;      // there is more than one shortest path
  };
  struct Row {
    VertexId start;
    std::uint32_t begin = 0;    // the lowest rank reached
    std::vector<Reach> ranks;   // from `begin` to the highest rank reached, and an end entry; empty if none is reached
                                // or the row is not filled
    std::vector<LinkId> links;  // on shortest paths
    bool is_filled = false;
  };
  struct Reached {
    std::int32_t hops = -1;
    LinkId by;                // the last link of a shortest path
    bool is_several = false;  // there is more than one
  };

  struct Choice {  // an exit of the current source, with the content of its row
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
  std::vector<bool> passes_;             // by vertex: it is no GPU and has exactly two neighbours
  std::vector<bool> is_left_out_;        // by link: another link of its chain limits the flows
  std::vector<std::size_t> first_exit_;  // by rank, into exits_
  std::vector<Exit> exits_;
  std::vector<Row> rows_;
  std::size_t bytes_ = 0;  // of all rows
  int times_full_ = 0;
  std::optional<RankId> source_;  // the current one
  std::vector<Choice> choices_;   // of source_
  std::vector<Reached> reached_;  // by vertex
  std::vector<VertexId> queue_;
};

}  // namespace moeplan::sim
