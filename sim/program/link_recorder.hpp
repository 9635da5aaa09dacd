// Recording of the traffic of a link over time.
#pragma once

#include "model/analysis/timeline.hpp"
#include "sim/network/network.hpp"

namespace moeplan::sim {

/// The history of one link. Bandwidths change at events only, so between two calls of record() it was constant.
class LinkRecorder {
 public:
  /// `resource` is that of the link in the network, with `bytes_on_link` bytes on the link per byte on the resource.
  LinkRecorder(LinkId link, ResourceId resource, double bytes_on_link)
      : resource_(resource), bytes_on_link_(bytes_on_link), history_{link, {}} {}

  [[nodiscard]] ResourceId resource() const { return resource_; }

  /// Records what the link has carried since the last call. `carried` is the total of its resource in bytes, `now` the
  /// simulated time without skipped iterations, `skipped` the total time of those.
  void record(double carried, SimTime now, SimTime skipped);
  /// The next segment does not extend the last.
  void begin_segment() { may_extend_ = false; }

  [[nodiscard]] std::vector<LinkSegment>& segments() { return history_.segments; }
  [[nodiscard]] LinkHistory take_history() { return std::move(history_); }

 private:
  ResourceId resource_;
  double bytes_on_link_;
  LinkHistory history_;
  double seen_ = 0;          // bytes on the resource up to seen_at_
  SimTime seen_at_{};        // without skipped iterations
  bool may_extend_ = false;  // the last segment ends now and can be extended at the same bandwidth
};

}  // namespace moeplan::sim
