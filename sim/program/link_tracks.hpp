// Traffic over time on the busiest links of an execution, for its trace.
#pragma once

#include <cstddef>
#include <vector>

#include "model/analysis/link_rates.hpp"
#include "model/costs/stage_clusters.hpp"
#include "model/program/program.hpp"

namespace moeplan::sim {

inline constexpr std::size_t kLinkTracks = 8;  // default number of links in a trace

/// The at most `most` busiest links (busiest_links) of `timeline`, the result of simulate(program, machines). Each is
/// named with its ends, its bandwidth and the number of equivalent links. Simulates once more to record their history.
[[nodiscard]] std::vector<LinkTrack> busiest_link_tracks(const Program& program, StageClusters& machines,
                                                         const Timeline& timeline, std::size_t most = kLinkTracks);

}  // namespace moeplan::sim
