// Exact simulation of destination-uniform all-to-alls, in which every rank sends the same bytes[d] to each rank d. It
// is suited to very large worlds: memory and time grow with the number of ranks, not with the number of pairs.
//
// Why it is exact. Write (s, d) for a flow; its route is factored into blocks (route_blocks.hpp), with the root chosen
// so that its largest subtree has as few ranks as possible. The flow ascends from s to the block or vertex where its
// route joins the route from the root to d, and descends to d.
//
// (1) Networks share no links, so each is an independent problem. Pairs connected by another network than the fabric
//     are few and are simulated flow by flow (traffic.hpp). The rest concerns the fabric.
// (2) Drop the links that a flow crosses on its ascent, and keep those that are crossed by flows into one subtree of
//     the root only. Subtrees then share no links, and the flows to d from all sources that join d's route at the same
//     position cross the same kept links: they form one weighted class. Sources that join it in one block, each over
//     links of its own with the same bandwidth and the same number of flows, also form one class, on one link that
//     represents the link of each: an equitable partition (traffic_classes.hpp). So each subtree is a small max-min
//     problem (subtree_traffic.hpp), solved exactly.
// (3) These rates are the max-min rates on all links if they overload no dropped link at any time: each flow has its
//     bottleneck among the kept links (network.hpp), and the dropped links only need to be feasible. Feasibility is
//     verified with upper bounds: the largest total rate, over time, from one source to the ranks of one subtree (or,
//     further down, of one branch), summed over subtrees and branches. The bound is the same for all sources behind a
//     link, except that near pairs (pairs connected by another network) and their branches are accounted for
//     individually.
//
// Where sources are limited on their own side (an uplink too narrow for what it must send, e.g. with subtrees of
// unequal size on an oversubscribed core), (3) fails, and the pairs are simulated individually if they are few enough.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "model/machine/cluster.hpp"
#include "sim/traffic/traffic.hpp"

namespace moeplan::sim {

/// The flows to one destination that end at the same time.
struct ColumnClass {
  RankId dst;
  std::int64_t flows;
  double finish_s;
};

/// Completion times of a destination-uniform all-to-all.
struct ColumnResult {
  double finish_s;                   // completion time of the last flow
  double sum_flow_finish_s;          // completion times summed over all flows
  TrafficMethod method;              // Decoupled: every flow ran at a constant rate
  std::int64_t classes;              // number of flow classes simulated
  bool is_by_pairs;                  // the pairs were simulated individually
  std::vector<ColumnClass> columns;  // all flows with bytes, by destination; empty unless requested
};

/// The largest number of ranks for which pairs are simulated individually where the subtree method is not exact.
inline constexpr std::int64_t kMostRanksByPairs = 2048;

/// A simulator of destination-uniform all-to-alls on one cluster, whose routes are factored once.
class DestinationUniformTraffic {
 public:
  /// `cluster` must outlive this.
  explicit DestinationUniformTraffic(const Cluster& cluster);
  ~DestinationUniformTraffic();
  DestinationUniformTraffic(const DestinationUniformTraffic&) = delete;
  DestinationUniformTraffic& operator=(const DestinationUniformTraffic&) = delete;

  /// Simulates all flows, started at time 0 under max-min fairness. `bytes` >= 0 by destination, one for each rank of
  /// the cluster. Returns the reason as text if the subtree method would not be exact and the cluster has more than
  /// `most_by_pairs` ranks.
  [[nodiscard]] std::variant<ColumnResult, std::string> simulate(std::span<const double> bytes, bool with_columns,
                                                                 std::int64_t most_by_pairs = kMostRanksByPairs) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moeplan::sim
