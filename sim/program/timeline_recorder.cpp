#include "sim/program/timeline_recorder.hpp"

#include <algorithm>
#include <utility>

namespace moeplan::sim {

TimelineRecorder::TimelineRecorder(const Cluster& cluster, const NetworkView& view, const NetworkFlows& flows,
                                   bool keep_spans, std::span<const LinkId> watch)
    : cluster_(cluster),
      view_(view),
      flows_(flows),
      keep_spans_(keep_spans),
      skipped_bytes_(view.capacities().size(), 0.0) {
  for (const LinkId l : watch) watched_.emplace_back(l, view.resource_of(l), view.bytes_on_link(l));
}

void TimelineRecorder::end_operation(RankId r, const RankStreams::Started& ended, SimTime now) {
  if (!keep_spans_) return;
  const auto& [instance, start] = ended;
  spans_.push_back({r, instance.block, instance.operation, -1, start + skipped_, now + skipped_});
}

void TimelineRecorder::record_links(SimTime now) {
  for (LinkRecorder& w : watched_) w.record(flows_.bytes_carried(w.resource()), now, skipped_);
}

std::vector<double> TimelineRecorder::bytes_carried() const {
  std::vector<double> bytes(skipped_bytes_);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] += flows_.bytes_carried(ResourceId(i));
  return bytes;
}

TimelineRecorder::IterationStart TimelineRecorder::start_iteration(SimTime now) {
  IterationStart start{now + skipped_, spans_.size(), repeats_.size(), bytes_carried(), {}};
  for (LinkRecorder& w : watched_) {
    start.segments.push_back(w.segments().size());
    w.begin_segment();
  }
  return start;
}

void TimelineRecorder::skip_iterations(const IterationStart& start, SimTime now, std::int64_t more) {
  if (more == 0) return;
  const SimTime period = now + skipped_ - start.time;
  const auto id = static_cast<std::int32_t>(repeats_.size());
  for (std::size_t i = start.spans; i < spans_.size(); ++i) {
    if (spans_[i].repeat < 0) spans_[i].repeat = id;
  }
  for (std::size_t i = start.repeats; i < repeats_.size(); ++i) {
    if (repeats_[i].parent < 0) repeats_[i].parent = id;
  }
  for (std::size_t w = 0; w < watched_.size(); ++w) {
    std::vector<LinkSegment>& segments = watched_[w].segments();
    for (std::size_t i = start.segments[w]; i < segments.size(); ++i) {
      if (segments[i].repeat < 0) segments[i].repeat = id;
    }
    watched_[w].begin_segment();
  }
  repeats_.push_back({-1, more + 1, start.time, period});
  const std::vector<double> bytes = bytes_carried();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    skipped_bytes_[i] += static_cast<double>(more) * (bytes[i] - start.bytes[i]);
  }
  skipped_ += SimTime::scaled(period, more);
}

Timeline TimelineRecorder::finish(SimTime now, std::int64_t world_size) {
  Timeline timeline;
  timeline.makespan = now + skipped_;
  timeline.joined_end = joined_end_;
  timeline.spans = std::move(spans_);
  if (view_.is_symmetric()) {
    timeline.segment = world_size;
    timeline.classes = static_cast<std::int64_t>(view_.ranks());
  }
  sort_spans(timeline.spans);
  timeline.repeats = std::move(repeats_);
  const std::vector<double> bytes = bytes_carried();
  for (std::size_t l = 0; l < cluster_.topology.links.size(); ++l) {
    const LinkId link(l);
    const double on_link = bytes[view_.resource_of(link).index()] * view_.bytes_on_link(link);
    if (on_link > 0) timeline.links.push_back({link, on_link});
  }
  for (LinkRecorder& w : watched_) timeline.link_history.push_back(w.take_history());
  return timeline;
}

}  // namespace moeplan::sim
