// The cost parameters of a communication in addition to its bytes on the links: its start-up time and the bandwidth
// limit of its implementation.
//
// There is one network model. A measured alpha-beta becomes the start-up time alpha and a cap on the bandwidth at which
// a rank sends and receives, such that the collective, alone on fast enough links, takes exactly alpha + n beta; with
// concurrent traffic, and on slower links, max-min sharing applies. A collective that is not measured has the cluster's
// start-up time, the latency of its route, and no cap; one that reduces also takes its message's sums
// (Cluster::reduction_bandwidth). On a measured curve, alpha and beta are those of the rank's own
// message size (measured_cost.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/quantity.hpp"
#include "model/collectives/dispatcher.hpp"
#include "model/collectives/group_shape.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/resolve.hpp"

namespace moeplan {

struct CommunicationCost {
  Seconds startup;                         // before a pair's first byte, once both ends have arrived
  std::optional<BytesPerSecond> rate_cap;  // on a rank's sends, and on its receives
  bool add_route_latency = true;           // false if alpha was measured: it includes the latency
};

/// The ranks and nodes of the group that `rank` belongs to.
[[nodiscard]] GroupShape shape_of(const GroupFamily& family, RankId rank, const Cluster& cluster);

/// The cost parameters of a Communication, for the group that `rank` belongs to, or of a Send by `rank`.
///
/// An all-to-all in parts (Communication::of > 1) that was measured only as a whole starts each part with the cluster's
/// start-up time, that of a launch, and with a fraction of the rest of alpha proportional to its messages, since the
/// start-up of a linear all-to-all is serial over its messages (assumed; measure send_receive to replace it). An
/// all-to-all that is not measured takes message_overhead for each message that the rank sends to another rank, and
/// each part is a collective with a start-up of its own. A part that continues the launch of another one has none. If a
/// peer gets several messages (Communication::messages), all but the first pay message_overhead, measured or not. A
/// Send that reads nothing is priced as a large message.
///
/// A tree starts with the cluster's start-up time and the latency of each hop of its longest path (NCCL's tuning model
/// has the same form: 2 (ranks / nodes - 1) steps inside the node and 2 log2 nodes between nodes, src/graph/tuning.cc).
/// Measured costs are those of the pattern that the library chose, which is unknown here; they are taken as those of
/// rings.
[[nodiscard]] CommunicationCost communication_cost(const Program& program, const Operation& operation, RankId rank,
                                                   const Cluster& cluster);

/// The cost of an all-to-all whose rows a dispatcher's kernels move (Communication::kernels), by the dispatcher's
/// formula (model/collectives/dispatcher.hpp) with the rows that the operation sends; none where the cluster has no
/// figures of them. The start-up is what does not depend on the rows' bytes; the cap lets a rank's rows take what SMs
/// and NVLink need together. NICs are links of the cluster, which the network shares. Figures of groups inside one node
/// also serve groups of several nodes if there are no others, and the other way round.
[[nodiscard]] std::optional<CommunicationCost> row_kernels_cost(const Program& program, const Operation& operation,
                                                                RankId rank, const Cluster& cluster, GroupShape shape);

/// The cluster's figures by which row_kernels_cost prices kernels of this name in groups on so many nodes; null: none.
[[nodiscard]] const DispatcherModel* row_kernel_figures(const Cluster& cluster, std::string_view kernels,
                                                        std::int64_t nodes);

/// A dispatcher's kernels in groups like which none was measured.
struct UnmeasuredKernels {
  std::string name;        // RowKernels::name
  std::int64_t nodes = 1;  // of the largest such group
  bool has_others = true;  // figures of groups on one node price those on several, or the other way round; else none do
  bool operator==(const UnmeasuredKernels&) const = default;
};
/// Those of a Program, each name at most once.
[[nodiscard]] std::vector<UnmeasuredKernels> unmeasured_kernels(const Program& program, const Cluster& cluster);

/// The factor >= 1 on the time of computation while the communication is open. For NCCL it is the GPU's measured one;
/// kernels that hold a known number of SMs leave the others.
[[nodiscard]] double slowdown_beside(const Operation& communication, const Cluster& cluster);

/// The same of an operation of Program::has_persistent_products: the blocks that find no SM free run when the others
/// have ended, so that it takes twice as long (pytorch/pytorch issue 143988: products on H100 beside NCCL; on other
/// GPUs assumed).
inline constexpr double kTwoWaves = 2;
[[nodiscard]] bool is_persistent(const Program& program, const Operation& operation);

}  // namespace moeplan
