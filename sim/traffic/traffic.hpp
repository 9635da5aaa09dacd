// Simulation of one all-to-all with arbitrary sizes on a network: the completion time of every flow.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/traffic/traffic_matrix.hpp"

namespace moeplan::sim {

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
