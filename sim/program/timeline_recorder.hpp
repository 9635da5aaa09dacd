// Recording of a simulation as a Timeline, with iterations of repeats that are not simulated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/analysis/timeline.hpp"
#include "model/machine/cluster.hpp"
#include "sim/flows/network_flows.hpp"
#include "sim/flows/network_view.hpp"
#include "sim/program/link_recorder.hpp"
#include "sim/program/rank_streams.hpp"

namespace moeplan::sim {

/// Takes simulated time without the iterations that all ranks have skipped together, and adds their time.
class TimelineRecorder {
 public:
  /// What is recorded of a rank before an instant.
  struct Mark {
    std::size_t spans = 0;
    std::size_t repeats = 0;
  };
  /// The traffic of some resources before an instant at which they carry none.
  struct TrafficMark {
    std::vector<double> bytes;          // by resource
    std::vector<std::size_t> segments;  // by watched link: number of segments
  };

  /// `cluster`, `view` and `flows` must outlive the recorder. It records the history of the links of `watch`, and no
  /// spans unless `keep_spans`.
  TimelineRecorder(const Cluster& cluster, const NetworkView& view, const NetworkFlows& flows, bool keep_spans,
                   std::span<const LinkId> watch);

  void end_operation(RankId r, const RankStreams::Started& ended, SimTime now);
  /// The sequence of a rank has ended.
  void end_sequence(SimTime now) { joined_end_ = std::max(joined_end_, now + skipped_); }
  /// The network has advanced to `now`.
  void record_links(SimTime now);

  [[nodiscard]] Mark mark(RankId r) const { return {spans_[r.index()].size(), repeats_.size()}; }
  [[nodiscard]] TrafficMark mark_traffic(std::span<const ResourceId> resources);

  /// Adds a repeat: a recorded iteration that takes `period` from `start` on, and copies of it. `first` is the lowest
  /// of its ranks, `depth` the number of repeats of the Program that it is in, including itself.
  std::int32_t add_repeat(RankId first, std::size_t depth, const TimelineRepeat& repeat);
  /// What has been recorded of the rank since `begin` is the recorded iteration.
  void repeat_since(const Mark& begin, RankId r, std::int32_t repeat);
  /// The same for the resources' traffic, which ends now.
  void repeat_traffic_since(const TrafficMark& begin, std::span<const ResourceId> resources, std::int32_t repeat);

  /// Time that `simulated` time does not count: all ranks have skipped iterations that take so long in total.
  void skip(SimTime time) { skipped_ += time; }
  [[nodiscard]] SimTime skipped() const { return skipped_; }

  /// The Timeline of a simulation of `world_size` ranks that ends `now`; `every_link` as in SimulateOptions. Leaves the
  /// recorder empty.
  [[nodiscard]] Timeline finish(SimTime now, std::int64_t world_size, bool every_link);

 private:
  [[nodiscard]] std::vector<LinkUse> links_used(bool every_link) const;
  /// Bytes carried by a resource of the view, including skipped iterations.
  [[nodiscard]] double bytes_carried(ResourceId resource) const {
    return skipped_bytes_[resource.index()] + flows_.bytes_carried(resource);
  }

  const Cluster& cluster_;
  const NetworkView& view_;
  const NetworkFlows& flows_;
  bool keep_spans_;
  SimTime skipped_;  // total time of skipped iterations
  SimTime joined_end_;
  std::vector<double> skipped_bytes_;             // by resource
  std::vector<std::vector<TimelineSpan>> spans_;  // by rank
  std::vector<TimelineRepeat> repeats_;
  std::vector<std::pair<RankId, std::size_t>> first_ranks_;  // by repeat, with its depth
  std::vector<LinkRecorder> watched_;
};

}  // namespace moeplan::sim
