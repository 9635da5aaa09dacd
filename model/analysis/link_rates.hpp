// Bandwidth use of links over time, and selection of the busiest links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/analysis/timeline.hpp"
#include "model/base/quantity.hpp"
#include "model/machine/topology.hpp"

namespace moeplan {

/// A step of a piecewise constant curve: the link's throughput from `time` until the next point.
struct RatePoint {
  SimTime time;
  BytesPerSecond rate;
  bool operator==(const RatePoint&) const = default;
};

/// A link's throughput over the whole Timeline, ascending in time, ending with 0. Iterations that are copies have the
/// mean throughput of the recorded one, so that the integral equals LinkUse::bytes. Empty if the link carried no
/// traffic.
[[nodiscard]] std::vector<RatePoint> link_rates(const Timeline& timeline, const LinkHistory& history);

/// A link that represents all links of equal bandwidth, tier and traffic.
struct BusyLink {
  LinkId link;                  // the lowest id of them
  std::int64_t equivalent = 1;  // number of these links, including this one
};

/// The busiest links (bytes / bandwidth; ties: the lowest id), at most `most` of them.
[[nodiscard]] std::vector<BusyLink> busiest_links(const Timeline& timeline, const Topology& topology, std::size_t most);

/// A named throughput curve, displayed as a counter in traces.
struct LinkTrack {
  std::string name;
  std::vector<RatePoint> rates;
};

}  // namespace moeplan
