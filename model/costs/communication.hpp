// What a communication costs beside its bytes on the links: its start-up and the rate that its implementation reaches.
//
// One network model. A measured alpha-beta becomes the start-up alpha and a cap on what a rank sends, and on what it
// receives, such that alone on fast enough links the collective takes exactly alpha + n beta; beside other traffic, and
// on slower links, max-min sharing applies. What is not measured has the cluster's start-up, the latency of its route,
// and no cap. Of a measured curve, alpha and beta are those of the rank's own message (measured_cost.hpp).
#pragma once

#include <optional>

#include "model/base/quantity.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/resolve.hpp"

namespace moeplan {

struct CommunicationCost {
  Seconds startup;                         // before the first byte of a pair, once both ends have come
  std::optional<BytesPerSecond> rate_cap;  // of a rank's sends, and of its receives
  bool add_route_latency = true;           // false where alpha was measured: it holds the latency
};

/// Of a Communication, for the group that `rank` belongs to, or of what `rank` Sends. An all-to-all in parts
/// (Communication::of > 1) that was measured only as a whole starts each part with its share of alpha, by messages,
/// since a linear all-to-all's start-up is serial over its messages (assumption; measure send_receive to replace it).
/// What is not measured pays message_overhead for each message that the rank sends to another, and each part is a
/// collective with a start-up of its own. Where a peer gets several messages (Communication::messages), measured or
/// not, all but the first pay message_overhead too. A Send that reads nothing is priced as a large message.
///
/// A tree starts with the cluster's start-up and the latency of each step of its longest way (NCCL's tuning model has
/// the same form: 2 (ranks / nodes - 1) steps inside the node and 2 log2 nodes between nodes, src/graph/tuning.cc).
/// Measured costs are those of the pattern that the library chose, unknown here, and are taken for rings'.
[[nodiscard]] CommunicationCost communication_cost(const Program& program, const Operation& operation, RankId rank,
                                                   const Cluster& cluster);

/// Closed forms of one collective alone, over n bytes (see AlphaBeta), by measured alpha-beta.
[[nodiscard]] constexpr Seconds alpha_beta_time(const AlphaBeta& cost, Bytes n) { return cost.alpha + n * cost.beta; }

}  // namespace moeplan
