// Bandwidths of links, read off the largest messages of measured collectives: the fastest of all logs.
//
// Notation as in model/costs/measured_cost.hpp: P ranks on N nodes, m = P / N; n the size, t its time; k the NICs of a
// node, of which m ranks use at most m. Traffic is what the simulator puts on the links:
//
//   GPU, inside a node   sent_share(P) n / t
//   NIC, all-to-all      m (P - m) / P  n / t / min(k, m)
//   NIC, rings           sent_share(P)  n / t / min(k, m)      a ring for each rank of a node
//   NIC, send-receive    n / t                                 rank r sends to r + 1: one rank of a node to the next
//
// An all-reduce that NVSwitch or a tree adds up puts fewer bytes on the links than a ring: its rate is then what a ring
// of that speed would need, and exceeds the links' own.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "profiler/tables/samples.hpp"

namespace moeplan::profiler {

/// Messages of fewer bytes do not show what a link carries (assumed: of H100s, 16 MiB reach half of it).
inline constexpr Bytes kLeastForRate = Bytes(16777216);

/// The bandwidth of a link, and the measurement that shows it.
struct LinkRate {
  BytesPerSecond rate;
  CollectiveSample sample;
  /// "all_to_all of 16.00 GiB on 8 ranks of 1 node, a.log:33".
  [[nodiscard]] std::string source() const;
};

/// The bandwidth of a GPU's links inside a node; none without a collective of 16 MiB or more inside a node.
[[nodiscard]] std::optional<LinkRate> intra_node_rate(std::span<const CollectiveSample> samples);

/// The bandwidth of a NIC; none without a collective of 16 MiB or more between nodes. Broadcasts by several ranks of a
/// node are left out: how many NICs they use is unknown.
[[nodiscard]] std::optional<LinkRate> nic_rate(std::span<const CollectiveSample> samples, std::int64_t nics_per_node);

}  // namespace moeplan::profiler
