// The busiest links of a run over time, for its trace.
#pragma once

#include <cstddef>
#include <vector>

#include "model/analysis/link_rates.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"

namespace moeplan::sim {

inline constexpr std::size_t kLinkTracks = 8;  // as many as one looks at

/// Of `timeline`, what simulate(program, cluster) gave: its busiest links (busiest_links), each named with its ends,
/// its bandwidth and how many are alike. Simulates once more to watch them.
[[nodiscard]] std::vector<LinkTrack> busiest_link_tracks(const Program& program, const Cluster& cluster,
                                                         const Timeline& timeline, std::size_t most = kLinkTracks);

}  // namespace moeplan::sim
