// Costs of a collective derived from measurements, on groups of the measured shape or of other shapes.
//
// Notation: P ranks on N nodes, m = P / N per node; n as for AlphaBeta; c = n / P the block passed from rank to rank
// (for broadcast and send-receive n itself); T_P(n) a measured curve.
//
//  1. The shape was measured: its curve. If it was measured both with and without the copy of a rank's own part, the
//     curve with the copy, since programs make that copy.
//  2. Several shapes with the same m (inside a node: any m) were measured: at equal c, time is linear in P, T_P(cP) =
//     A(c) + (P - 1) G(c), since a ring has P - 1 steps and a linear all-to-all P - 1 messages, each of c bytes
//     (assumed of the library's algorithm; the alpha of the LogGP family grows likewise). Between two measured P
//     interpolate linearly; beyond them extrapolate from the last two.
//  3. One such shape: the start-up time T_P(0) is unchanged, the rest grows with the number of steps (for an all-to-all
//     between nodes, with the number of messages that cross nodes). The start-up is then too small for more ranks:
//     measure a second number of ranks.
//  4. An entry without a shape applies to all shapes.
//  5. Other m, all-to-all between nodes: the slower of the traffic between nodes, at the per-rank network bandwidth
//     measured with the nearest m, and of the traffic within the node, by the curve inside a node. Both share the
//     cluster's links, so that several ranks of one NIC still share it. Send-receive: the nearest shape. Other
//     collectives count as not measured, since a ring's bandwidth depends on how many NICs it uses.
//  6. An all-reduce takes no less time than a reduce-scatter or an all-gather of as many bytes, since it can perform
//     either by filling in zeros. An all-reduce that was not measured, by rules 1 to 5, takes the sum of both, or twice
//     the one that was measured: the two phases of a ring send equal amounts.
//
// A larger message never takes less time: where a curve decreases, or where combining two curves would give a
// decreasing one, the longest time of the smaller messages applies.
#pragma once

#include <optional>

#include "model/collectives/group_shape.hpp"
#include "model/machine/cluster.hpp"

namespace moeplan {

/// The start-up time and time per byte such that a message of n bytes alone takes alpha + n beta; none if no
/// measurement applies. A small message has the time per byte of large messages, as long as that does not exceed its
/// total time; the rest of its time is start-up.
[[nodiscard]] std::optional<AlphaBeta> measured_cost(const CollectiveCosts& costs, Collective collective,
                                                     GroupShape shape, Bytes n);

/// Whether groups of exactly this shape were measured (rule 1).
[[nodiscard]] bool is_measured(const CollectiveCosts& costs, Collective collective, GroupShape shape);

/// Whether any of the costs depends on n.
[[nodiscard]] bool depends_on_message(const CollectiveCosts& costs);

/// Bytes that a rank sends to others per byte of the collective's n (rings and chains; MODELS sections 0 and 2).
[[nodiscard]] double sent_share(Collective collective, std::int64_t group_size);

}  // namespace moeplan
