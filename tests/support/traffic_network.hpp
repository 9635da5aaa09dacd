// The network of a cluster for simulations of single collectives: every link is a resource.
#pragma once

#include <vector>

#include "model/machine/cluster.hpp"
#include "sim/traffic/traffic_matrix.hpp"

namespace moeplan::tests {

/// The links of a cluster and its routes between ranks; `cluster` must outlive the result. The route of an unconnected
/// pair is empty, as if its bandwidth were unlimited: build_cluster rejects such clusters.
inline sim::TrafficNetwork traffic_network(const Cluster& cluster) {
  sim::TrafficNetwork network;
  for (const Link& link : cluster.topology.links) network.capacity.push_back(link.bandwidth.value());
  network.route = [&cluster](RankId src, RankId dst, std::vector<sim::FlowUse>& uses) {
    const Route route = cluster.route(src, dst);
    for (const RouteLink& l : route.links) uses.push_back({sim::ResourceId(l.link.value()), l.share});
  };
  return network;
}

}  // namespace moeplan::tests
