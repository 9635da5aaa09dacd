// The time of an all-to-all of point-to-point messages (NCCL's grouped sends and receives), and of one such message.
// docs/communication.md derives it and lists the fitted numbers.
//
// Notation: n ranks on N nodes, m = n/N; S bytes of a rank's buffer, one n-th to each rank.
//
//   inside a node   time = base + (m - 1) peer + min(LL, Simple)
//                   LL = S / ll_bandwidth, Simple = simple_base + V / bandwidth + own (S/m) / bandwidth
//                                                   + ramp V / (V + ramp_bytes), V = (m-1)/m S
//   between nodes   time = base + network_base + max(own, W / fabric), W = (n-m)/n S
//                   own = (m - 1) peer + (n - m) network_peer
//                         + max(the node's part alone, W / (node's NICs / m) + network's ramp W / (W + ramp_bytes))
//                   fabric = pair_bandwidth between two nodes, else bandwidth / (1 + contention log2 N)
//
// A rank's own messages follow one another; meanwhile the fabric carries those of all ranks, and the slower decides.
// Likewise the host's memory, without NVLinks (network.hpp), which in LL passes on 2 V: half of a word is a flag.
#pragma once

#include <optional>

#include "model/base/quantity.hpp"
#include "model/collectives/collective_cost.hpp"
#include "model/collectives/group_shape.hpp"
#include "model/collectives/network.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// All-to-alls that cross nodes.
struct AllToAllNetwork {
  Seconds peer;                                  // of each message to another node
  std::optional<BytesPerSecond> bandwidth = {};  // the most that the fabric carries of a rank; none: its NICs' share
  std::optional<BytesPerSecond> pair_bandwidth = {};  // between two nodes, whose NICs receive from one; none: the same
  double contention = 0;                              // loss of bandwidth with each doubling of the nodes
  Seconds ramp{};  // filling the connections' pipelines; half of it is paid at ramp_bytes
  Bytes ramp_bytes{1};
  bool operator==(const AllToAllNetwork&) const = default;
};

struct AllToAllModel {
  Seconds base;  // of grouped messages, more than a ring's launch
  Seconds peer;  // of each message inside the node
  BytesPerSecond ll_bandwidth;
  Seconds simple_base;
  BytesPerSecond bandwidth;
  double own = 0;  // a byte of the own part costs this fraction of one that is sent: 0 to 1
  Seconds ramp{};
  Bytes ramp_bytes{1};
  std::optional<AllToAllNetwork> network = {};  // none: not between nodes
  bool operator==(const AllToAllModel&) const = default;
};

/// The numbers of one message in each direction.
struct SendReceiveModel {
  Seconds base;
  BytesPerSecond bandwidth;                       // inside a node
  std::optional<BytesPerSecond> connection = {};  // between nodes; none: not between nodes
  bool fits_all = false;                          // read off all rows, so that none of them is held out
  bool operator==(const SendReceiveModel&) const = default;
};

/// The time without the launch; none between nodes without figures.
[[nodiscard]] std::optional<CollectiveCost> all_to_all_cost(const AllToAllModel& model, const Network& network,
                                                            GroupShape shape, Bytes bytes, bool in_place);
[[nodiscard]] std::optional<CollectiveCost> send_receive_cost(const SendReceiveModel& model, const Network& network,
                                                              GroupShape shape, Bytes bytes);

/// Read the maps `all_to_all` and `send_receive` of a file in configs/collectives.
[[nodiscard]] AllToAllModel read_all_to_all_model(MapReader map);
[[nodiscard]] SendReceiveModel read_send_receive_model(MapReader map);

}  // namespace moeplan
