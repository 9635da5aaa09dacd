// What the ranks of a node share: its NICs, as collectives reach them, and without NVLinks the host's memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "model/base/quantity.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// The memory and bridges of a host whose GPUs have no NVLinks. GPUs of one PCIe switch copy to each other directly;
/// the bytes of larger groups are written to the host's memory and read from there, and all ranks share it.
struct HostMemory {
  std::int64_t direct_ranks;  // the largest group that does not need it
  BytesPerSecond bandwidth;   // of all ranks together, in groups of up to twice as many
  double contention;          // loss with each further doubling of the ranks
  bool operator==(const HostMemory&) const = default;

  /// The time in which it passes on `bytes` of each of `ranks`; 0 where they copy directly.
  [[nodiscard]] Seconds time(double ranks, Bytes bytes) const {
    const double wide = ranks / static_cast<double>(2 * direct_ranks);
    if (2 * wide <= 1) return Seconds(0);
    return bytes * ranks / bandwidth * (1 + contention * std::max(0.0, std::log2(wide)));
  }
};

struct Network {
  std::int64_t nics_per_node = 0;              // 0: one NVLink domain, no network
  BytesPerSecond nic_bandwidth{};              // that collectives reach: datasheet times efficiency
  Seconds base{};                              // of every collective that crosses nodes: proxies and connections
  bool fits_all = false;                       // read off all rows between nodes, so that none of them is held out
  std::optional<HostMemory> host_memory = {};  // none: GPUs are joined by NVLinks
  bool operator==(const Network&) const = default;

  /// The NICs that `ranks` of a node send through, each rank at most through one.
  [[nodiscard]] BytesPerSecond node_bandwidth(double ranks) const {
    return nic_bandwidth * std::min(ranks, static_cast<double>(nics_per_node));
  }
  /// The time in which what `ranks` of a node share passes on `bytes` of each of them; 0 over NVLinks.
  [[nodiscard]] Seconds host_time(double ranks, Bytes bytes) const {
    return host_memory ? host_memory->time(ranks, bytes) : Seconds(0);
  }
};

/// Read the maps `network` and `host_memory` of a file in configs/collectives.
[[nodiscard]] Network read_network(MapReader map);
[[nodiscard]] HostMemory read_host_memory(MapReader map);

}  // namespace moeplan
