// What links carry over time, and which are worth looking at.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "model/analysis/timeline.hpp"
#include "model/base/quantity.hpp"
#include "model/machine/topology.hpp"

namespace moeplan {

/// From `time` on, until the next one, the link carries so much.
struct RatePoint {
  SimTime time;
  BytesPerSecond rate;
  bool operator==(const RatePoint&) const = default;
};

/// A link's rate over the whole run, ascending in time, the last one 0. Iterations that are copies have the mean rate
/// of the recorded one, so that the integral is what the link carried (LinkUse::bytes). Empty if it carried nothing.
[[nodiscard]] std::vector<RatePoint> link_rates(const Timeline& timeline, const LinkHistory& history);

/// A link that stands for others of equal bandwidth and tier that carried as much.
struct BusyLink {
  LinkId link;             // the lowest id of them
  std::int64_t alike = 1;  // how many they are, with this one
};

/// The most used links (bytes over bandwidth; ties: the lowest id), `most` of them at most.
[[nodiscard]] std::vector<BusyLink> busiest_links(const Timeline& timeline, const Topology& topology, std::size_t most);

/// A named curve, as traces show it.
struct LinkTrack {
  std::string name;
  std::vector<RatePoint> rates;
};

}  // namespace moeplan
