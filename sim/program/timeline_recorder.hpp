// Recording of a simulation as a Timeline, with iterations of repeats that are not simulated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/analysis/timeline.hpp"
#include "model/machine/cluster.hpp"
#include "sim/program/link_recorder.hpp"
#include "sim/program/network_flows.hpp"
#include "sim/program/network_view.hpp"
#include "sim/program/rank_streams.hpp"

namespace moeplan::sim {

/// Takes simulated time without skipped iterations, and adds the time of the iterations that were skipped before.
class TimelineRecorder {
 public:
  /// What is recorded before an iteration of a repeat that all ranks begin at the same instant.
  struct IterationStart {
    SimTime time;
    std::size_t spans;
    std::size_t repeats;
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

  [[nodiscard]] IterationStart start_iteration(SimTime now);
  /// Skips `more` further iterations of the repeat, which are copies of the one from `start` to `now`.
  void skip_iterations(const IterationStart& start, SimTime now, std::int64_t more);

  /// The Timeline of a simulation of `world_size` ranks that ends `now`. Leaves the recorder empty.
  [[nodiscard]] Timeline finish(SimTime now, std::int64_t world_size);

 private:
  /// Bytes carried by each resource of the view, including skipped iterations.
  [[nodiscard]] std::vector<double> bytes_carried() const;

  const Cluster& cluster_;
  const NetworkView& view_;
  const NetworkFlows& flows_;
  bool keep_spans_;
  SimTime skipped_;  // total time of skipped iterations
  SimTime joined_end_;
  std::vector<double> skipped_bytes_;  // by resource
  std::vector<TimelineSpan> spans_;
  std::vector<TimelineRepeat> repeats_;
  std::vector<LinkRecorder> watched_;
};

}  // namespace moeplan::sim
