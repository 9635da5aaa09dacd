// An all-to-all in which every rank sends the same: bytes[d] to each rank d. For very large worlds: memory and time
// grow with the ranks, not with their pairs.
//
// Why it is exact. Write a flow (s, d); its route is factored into blocks (route_blocks.hpp), rooted where the largest
// limb has fewest ranks. Take the flow from s up to the block or vertex where its way meets d's way to the root, and
// down to d.
//
// (1) Networks share no links, so each is a problem of its own. Pairs joined by another network than the fabric are few
//     and are simulated flow by flow (traffic.hpp). What follows is the fabric.
// (2) Drop the links that a flow crosses on its way up, and keep those that only flows to one limb of the root cross.
//     Limbs then share nothing, and flows to d from all sources that meet d's way at the same place cross the same kept
//     links: one weighted class. Sources that meet it in one block, each by links of its own that are as wide and carry
//     as many flows, are one class too, on one link that stands for each of theirs: an equitable partition
//     (traffic_classes.hpp). So each limb is a small max-min problem (limb_traffic.hpp), solved exactly.
// (3) These rates are the max-min rates on all links if they overload no dropped link at any time: each flow has its
//     bottleneck among the kept links (network.hpp), and the dropped ones only have to be feasible. That is verified
//     with bounds from above: over time, the most that one source sends to the ranks of one limb (or further down, of
//     one branch) at once; summed over limbs and branches, the same for all sources behind a link, but for near pairs
//     and the branch they are in, which are accounted for one by one.
//
// Where sources are held back by their own side (an uplink narrower than what it must send: limbs of unequal size on an
// oversubscribed core, say), (3) fails and the pairs are simulated one by one, if they are few.
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

/// Flows to one rank that end together.
struct ColumnClass {
  RankId dst;
  std::int64_t flows;
  double finish_s;
};

struct ColumnResult {
  double finish_s;                   // of the last flow
  double sum_flow_finish_s;          // over all flows
  TrafficMethod method;              // Decoupled: every flow ran at one rate
  std::int64_t classes;              // what was simulated
  bool is_by_pairs;                  // every pair was looked at
  std::vector<ColumnClass> columns;  // of every flow that has bytes, if asked for; by destination
};

/// The most ranks whose pairs are simulated where columns are not enough.
inline constexpr std::int64_t kMostRanksByPairs = 2048;

/// The cluster, factored once for all columns that are asked for.
class DestinationUniformTraffic {
 public:
  /// `cluster` must outlive this.
  explicit DestinationUniformTraffic(const Cluster& cluster);
  ~DestinationUniformTraffic();
  DestinationUniformTraffic(const DestinationUniformTraffic&) = delete;
  DestinationUniformTraffic& operator=(const DestinationUniformTraffic&) = delete;

  /// Starts all flows at 0 under max-min fairness. `bytes` >= 0 by destination, one for each rank of the cluster.
  /// The reason as text where the answer would not be exact and the ranks are more than `most_by_pairs`.
  [[nodiscard]] std::variant<ColumnResult, std::string> simulate(std::span<const double> bytes, bool with_columns,
                                                                 std::int64_t most_by_pairs = kMostRanksByPairs) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace moeplan::sim
