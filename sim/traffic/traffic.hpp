// One all-to-all of arbitrary sizes on a network: when does every flow end?
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/base/ids.hpp"
#include "sim/network/network.hpp"

namespace moeplan {
struct Cluster;
}

namespace moeplan::sim {

struct TrafficFlow {
  RankId src;
  RankId dst;
  double bytes;  // >= 0
};

/// Who sends how much to whom. Traffic of a rank to itself crosses nothing and takes no time.
struct TrafficMatrix {
  std::int64_t ranks;
  std::vector<TrafficFlow> flows;
};

/// The machine: the capacity of every resource (bytes/s), and what a transfer between two ranks crosses, appended to
/// `uses` (it comes empty). The route is asked for several times and is the same each time.
using RouteFunction = std::function<void(RankId src, RankId dst, std::vector<FlowUse>& uses)>;
struct TrafficNetwork {
  std::vector<double> capacity;
  RouteFunction route;
};

/// The links of a cluster and its routes between ranks; `cluster` must outlive the result. Routes of a pair without one
/// are empty, as if nothing held the pair back: build_cluster refuses such clusters.
[[nodiscard]] TrafficNetwork traffic_network(const Cluster& cluster);

/// How the answer was found; all three are exact.
enum class TrafficMethod {
  Decoupled,  // each flow is held by one link that it shares with flows of equal size only
  Classes,    // the engine, on the classes of an equitable partition
  Flows       // the engine, flow by flow
};

struct TrafficResult {
  double finish_s;           // of the last flow
  double sum_flow_finish_s;  // over all flows
  TrafficMethod method;
  std::int64_t classes;               // what was simulated: links that hold flows, classes, or flows
  std::vector<double> flow_finish_s;  // of every flow, if asked for
};

/// Starts all flows at 0 under max-min fairness (network.hpp).
[[nodiscard]] TrafficResult simulate_traffic(const TrafficMatrix& matrix, const TrafficNetwork& network,
                                             bool with_flow_finish);

}  // namespace moeplan::sim
