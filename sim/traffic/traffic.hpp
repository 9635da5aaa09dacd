// Simulation of one all-to-all with arbitrary sizes on a network: the completion time of every flow.
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

/// One flow of an all-to-all.
struct TrafficFlow {
  RankId src;
  RankId dst;
  double bytes;  // >= 0
};

/// The flows between ranks, in bytes. A flow from a rank to itself crosses no resource and takes no time.
struct TrafficMatrix {
  std::int64_t ranks;
  std::vector<TrafficFlow> flows;
};

/// A function that appends the resources that a transfer between two ranks crosses to `uses`, which is empty at the
/// call. It is called several times for each pair and must give the same route each time.
using RouteFunction = std::function<void(RankId src, RankId dst, std::vector<FlowUse>& uses)>;
/// The resources of a network and the routes between its ranks.
struct TrafficNetwork {
  std::vector<double> capacity;  // by resource, bytes/s
  RouteFunction route;
};

/// The links of a cluster and its routes between ranks; `cluster` must outlive the result. The route of an unconnected
/// pair is empty, as if its rate were unlimited: build_cluster rejects such clusters.
[[nodiscard]] TrafficNetwork traffic_network(const Cluster& cluster);

/// The method by which the completion times were computed; all are exact.
enum class TrafficMethod {
  Decoupled,  // closed form: each flow is limited by one link that it shares with flows of equal size only
  Classes,    // the network engine on the classes of an equitable partition
  Flows       // the network engine on individual flows
};

/// Completion times of the flows of a TrafficMatrix.
struct TrafficResult {
  double finish_s;           // completion time of the last flow
  double sum_flow_finish_s;  // completion times summed over all flows
  TrafficMethod method;
  std::int64_t classes;               // number of bottleneck links, classes or flows simulated, by method
  std::vector<double> flow_finish_s;  // by flow; empty unless requested
};

/// Simulates all flows, started at time 0 under max-min fairness (network.hpp).
[[nodiscard]] TrafficResult simulate_traffic(const TrafficMatrix& matrix, const TrafficNetwork& network,
                                             bool with_flow_finish);

}  // namespace moeplan::sim
