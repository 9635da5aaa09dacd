// What a collective costs by what was measured: on groups of the same shape, or of others.
//
// Notation: P ranks on N nodes, m = P / N a node; n as for AlphaBeta; c = n / P the part that passes from rank to rank
// (for broadcast and send-receive n itself); T_P(n) a measured curve.
//
//  1. The shape was measured: its curve. Of two, the one with the copy of a rank's own part, which programs do.
//  2. Several shapes with the same m (inside a node: all of them) were measured: at equal c, time is a line in P,
//     T_P(cP) = A(c) + (P - 1) G(c): a ring's steps and a linear all-to-all's messages are P - 1, each of c bytes
//     (assumed of what the library runs; the alpha of the LogGP family grows likewise). Between two measured P by their
//     line, beyond them by that of the last two.
//  3. One such shape: the start-up T_P(0) stays, the rest grows with the steps (for an all-to-all between nodes, with
//     the messages that cross). The start-up is then too small for more ranks: measure a second number of ranks.
//  4. An entry without a shape: it holds for all.
//  5. Other m, all-to-all between nodes: the slower of what crosses, at the rate of a rank through the network as
//     measured with the nearest m, and of what stays in the node, by the curve inside a node. Both share the cluster's
//     links, so several ranks of one NIC still share it. Send-receive: the nearest shape. Others: not measured, since a
//     ring's rate depends on how many NICs it uses.
//  6. An all-reduce takes no less than a reduce-scatter or an all-gather of as many bytes, since it does either with
//     zeros for what is missing. One that was not measured, by rules 1 to 5, is both in turn, or twice the one that
//     was: a ring's two phases send equally much.
//
// A larger message never takes less time: where a curve falls, or two that make a third would let it fall, the longest
// time of the smaller messages holds.
#pragma once

#include <optional>

#include "model/machine/cluster.hpp"

namespace moeplan {

struct GroupShape {
  std::int64_t ranks = 2;
  std::int64_t nodes = 1;
  bool operator==(const GroupShape&) const = default;
};

/// The start-up and the time a byte with which alpha + n beta is what a message of n bytes takes alone; none where
/// nothing measured applies. Small messages too have the time a byte of large ones, as far as their time allows it: the
/// rest of their time is start-up.
[[nodiscard]] std::optional<AlphaBeta> measured_cost(const CollectiveCosts& costs, Collective collective,
                                                     GroupShape shape, Bytes n);

/// Whether n matters to any of them.
[[nodiscard]] bool depends_on_message(const CollectiveCosts& costs);

/// Bytes that a rank sends to others for each byte of the collective's n (rings and chains; MODELS section 0 and 2).
[[nodiscard]] double sent_share(Collective collective, std::int64_t group_size);

}  // namespace moeplan
