// The flows of one all-to-all with arbitrary sizes, and the network that they cross.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "model/base/ids.hpp"
#include "sim/network/network.hpp"

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

}  // namespace moeplan::sim
