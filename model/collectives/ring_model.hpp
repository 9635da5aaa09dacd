// The time of a ring: all-gather, reduce-scatter, and all-reduce as one after the other. docs/communication.md derives
// it and lists the fitted numbers.
//
// Notation: n ranks on N nodes; S bytes of the whole tensor; k = 2 for an all-reduce, else 1. A rank sends
// V = k (n-1)/n S in k (n-1) steps of chunks c = S/n; k (N-1) of the steps cross nodes.
//
//   inside a node   time = base + max(k (n-1) step + V / bandwidth + own (S/n) / bandwidth, host's memory)
//                          + ramp V / (V + ramp_bytes)
//   between nodes   time = base + network_base + ramp + max(V / min(bandwidth, node's NICs) + own, steps)
//                   steps = k pass + (k (n-1) - k (N-1)) max(step, overhead) + k (N-1) (network_step + c /
//                   hop_bandwidth)
//
// The host's memory, without NVLinks, passes on expansion V bytes of every rank (network.hpp), while the ranks' own
// steps go on. Between nodes steps are pipelined with the transfer: the slower decides. `own` is the copy of a rank's
// own part that an out-of-place collective makes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/base/quantity.hpp"
#include "model/collectives/collective.hpp"
#include "model/collectives/collective_cost.hpp"
#include "model/collectives/group_shape.hpp"
#include "model/collectives/network.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// A protocol of NCCL (LL, LL128, Simple) between nodes.
struct RingNetwork {
  Seconds step;                                      // latency of a step that crosses nodes
  Seconds pass{};                                    // of each of the k passes around the ring, however many nodes
  Seconds overhead;                                  // of every step, also inside nodes: the proxy keeps the pace
  std::optional<BytesPerSecond> bandwidth = {};      // of a rank in groups over nodes; none: as inside a node
  std::optional<BytesPerSecond> hop_bandwidth = {};  // of a chunk that is not pipelined with the next
  std::optional<Bytes> largest_chunk = {};           // the tuner leaves the protocol for larger chunks; none: never
  bool operator==(const RingNetwork&) const = default;
};

/// The numbers of one protocol, for the collectives that share them.
struct RingModel {
  std::vector<Collective> collectives;
  std::string protocol;
  Seconds base, step;
  BytesPerSecond bandwidth;  // of a rank
  double own = 0;            // a byte of the own part costs this fraction of one that is sent: 0 to 1
  Seconds ramp{};            // filling the channels' pipelines; half of it is paid at ramp_bytes
  Bytes ramp_bytes{1};
  double expansion = 1;                     // bytes moved for each one sent: 2 for LL, whose words are half flags
  std::optional<RingNetwork> network = {};  // none: not between nodes
  bool operator==(const RingModel&) const = default;
};

[[nodiscard]] bool can_run(const RingModel& model, Collective collective);

/// The time without the launch; none if the ring cannot run: between nodes without figures, or with chunks beyond
/// largest_chunk: those of the largest power of two of nodes within the group, of 8 for 3 to 7 nodes (so that the
/// choice does not change with every node). Chunks that are passed on whole (hop_bandwidth) have no limit between two
/// nodes.
[[nodiscard]] std::optional<CollectiveCost> ring_cost(const RingModel& model, const Network& network,
                                                      Collective collective, GroupShape shape, Bytes bytes,
                                                      bool in_place);

/// Reads an entry of the list `rings` of a file in configs/collectives.
[[nodiscard]] RingModel read_ring_model(MapReader entry);

}  // namespace moeplan
