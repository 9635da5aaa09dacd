// The reference network of the traffic tests: nodes of 8 GPUs. Each GPU is connected to a non-blocking switch in its
// node with 450 GB/s in each direction, and has a NIC to a non-blocking core with 50 GB/s in each direction.
#pragma once

#include "sim/traffic/traffic.hpp"

namespace moeplan {

using namespace sim;

/// The reference network with `ranks` GPUs.
inline TrafficNetwork reference_machine(std::int64_t ranks) {
  TrafficNetwork network;
  for (std::int64_t r = 0; r < ranks; ++r) {
    for (const double capacity : {450e9, 450e9, 50e9, 50e9}) network.capacity.push_back(capacity);
  }
  network.route = [](RankId src, RankId dst, std::vector<FlowUse>& uses) {
    const bool is_inside = src.value() / 8 == dst.value() / 8;
    uses.push_back({ResourceId(4 * src.value() + (is_inside ? 0 : 2)), 1});
    uses.push_back({ResourceId(4 * dst.value() + (is_inside ? 1 : 3)), 1});
  };
  return network;
}

}  // namespace moeplan
