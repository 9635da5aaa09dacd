#include "planner/placement/devices.hpp"

#include <algorithm>

namespace moeplan::planner {

BytesPerSecond average_bandwidth(const PlacementDevices& d) {
  if (d.ranks < 2) return d.rank_bandwidth;
  const double across =
      std::min(d.nic_bandwidth.value(), d.node_bandwidth.value() / static_cast<double>(d.ranks_per_node));
  double sum = 0;
  for (std::int64_t node = 0; node < d.nodes(); ++node) {
    const auto own = static_cast<double>(std::min(d.ranks_per_node, d.ranks - node * d.ranks_per_node));
    sum += own * ((own - 1) * d.rank_bandwidth.value() + (static_cast<double>(d.ranks) - own) * across);
  }
  return BytesPerSecond(sum / (static_cast<double>(d.ranks) * static_cast<double>(d.ranks - 1)));
}

BytesPerSecond chain_bandwidth(const PlacementDevices& d) {
  if (d.nodes() < 2) return d.rank_bandwidth;
  const BytesPerSecond across = std::min(d.nic_bandwidth, d.node_bandwidth);
  return d.ranks_per_node < 2 ? across : std::min(d.rank_bandwidth, across);
}

}  // namespace moeplan::planner
