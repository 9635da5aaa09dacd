// Sets of ranks that affect each other while they execute a repeat, and whether a set is affected by nothing else.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/program/program.hpp"
#include "sim/flows/network_view.hpp"

namespace moeplan::sim {

/// A partition of the simulated ranks into sets: by rank, the number of its set; sets are numbered from 0 in order of
/// their lowest ranks.
using RankSets = std::vector<std::int32_t>;

/// The finest partition in which all ranks that communicate with each other in `body` are in one set: members of the
/// groups of its communications. Under symmetry all simulated ranks are one set. None if `body` contains messages
/// between pipeline stages, which outlast iterations.
[[nodiscard]] std::optional<RankSets> interacting_ranks(const Program& program, const Sequence& body,
                                                        const NetworkView& view);

/// By set, the resources of the network that its communications use; none if one of them is also used by a
/// communication of the Program in which no rank of the set takes part, or by a message to a rank of the set.
using OwnResources = std::vector<std::optional<std::vector<ResourceId>>>;

/// Takes O(flows of the Program).
[[nodiscard]] OwnResources own_resources(const Program& program, const RankSets& sets, const NetworkView& view);

}  // namespace moeplan::sim
