// The NICs of a node, as collectives reach them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/base/quantity.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

struct Network {
  std::int64_t nics_per_node = 0;  // 0: one NVLink domain, no network
  BytesPerSecond nic_bandwidth{};  // that collectives reach: datasheet times efficiency
  Seconds base{};                  // of every collective that crosses nodes: proxies and connections
  bool fits_all = false;           // read off all rows between nodes, so that none of them is held out
  bool operator==(const Network&) const = default;

  /// The NICs that `ranks` of a node send through, each rank at most through one.
  [[nodiscard]] BytesPerSecond node_bandwidth(double ranks) const {
    return nic_bandwidth * std::min(ranks, static_cast<double>(nics_per_node));
  }
};

/// Reads the map `network` of a file in configs/collectives.
[[nodiscard]] Network read_network(MapReader map);

}  // namespace moeplan
