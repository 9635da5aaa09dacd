// The network between nodes as `ibnetdiscover` prints it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::profiler {

struct FabricTopology {
  std::int64_t nodes = 0;           // hosts, by the names of their adapters
  std::int64_t nics_per_node = 0;   // connected ports of a host, of most hosts
  BytesPerSecond nic_bandwidth{};   // of most of their ports
  bool has_rails = false;           // the ports of a host are on leaf switches of their own
  std::int64_t nodes_per_leaf = 0;  // hosts of the fullest leaf switch
  double oversubscription = 1;      // of the worst leaf: bandwidth to hosts over that to other switches; 1: one switch
  std::int64_t leaves = 0, switches = 0;
  std::vector<std::string> left_out;  // as sentences
};

/// Reads the output of ibnetdiscover: switches with their ports, and the channel adapters at their other ends. A host
/// is the first word of an adapter's description. Raises InputError.
[[nodiscard]] FabricTopology read_ibnetdiscover(const std::string& text, const std::string& file);

}  // namespace moeplan::profiler
