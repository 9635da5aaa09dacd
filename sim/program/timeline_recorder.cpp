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
      skipped_bytes_(view.capacities().size(), 0.0),
      spans_(view.ranks()) {
  for (const LinkId l : watch) watched_.emplace_back(l, view.resource_of(l), view.bytes_on_link(l));
}

void TimelineRecorder::end_operation(RankId r, const RankStreams::Started& ended, SimTime now) {
  if (!keep_spans_) return;
  const auto& [instance, start] = ended;
  spans_[r.index()].push_back({r, instance.block, instance.operation, -1, start + skipped_, now + skipped_});
}

void TimelineRecorder::record_links(SimTime now) {
  for (LinkRecorder& w : watched_) w.record(flows_.bytes_carried(w.resource()), now, skipped_);
}

TimelineRecorder::TrafficMark TimelineRecorder::mark_traffic(std::span<const ResourceId> resources) {
  TrafficMark mark;
  for (const ResourceId resource : resources) mark.bytes.push_back(bytes_carried(resource));
  for (LinkRecorder& w : watched_) {
    mark.segments.push_back(w.segments().size());
    w.begin_segment();
  }
  return mark;
}

std::int32_t TimelineRecorder::add_repeat(RankId first, std::size_t depth, const TimelineRepeat& repeat) {
  repeats_.push_back(repeat);
  first_ranks_.emplace_back(first, depth);
  return static_cast<std::int32_t>(repeats_.size()) - 1;
}

void TimelineRecorder::repeat_since(const Mark& begin, RankId r, std::int32_t repeat) {
  std::vector<TimelineSpan>& spans = spans_[r.index()];
  for (std::size_t i = begin.spans; i < spans.size(); ++i) {
    if (spans[i].repeat < 0) spans[i].repeat = repeat;
  }
  const std::size_t depth = first_ranks_[static_cast<std::size_t>(repeat)].second;
  for (std::size_t i = begin.repeats; i < repeats_.size(); ++i) {
    if (repeats_[i].parent < 0 && first_ranks_[i].first == r && first_ranks_[i].second > depth)
      repeats_[i].parent = repeat;
  }
}

void TimelineRecorder::repeat_traffic_since(const TrafficMark& begin, std::span<const ResourceId> resources,
                                            std::int32_t repeat) {
  for (std::size_t w = 0; w < watched_.size(); ++w) {
    if (std::find(resources.begin(), resources.end(), watched_[w].resource()) == resources.end()) continue;
    std::vector<LinkSegment>& segments = watched_[w].segments();
    for (std::size_t i = begin.segments[w]; i < segments.size(); ++i) {
      if (segments[i].repeat < 0) segments[i].repeat = repeat;
    }
    watched_[w].begin_segment();
  }
  const auto more = static_cast<double>(repeats_[static_cast<std::size_t>(repeat)].count - 1);
  for (std::size_t i = 0; i < resources.size(); ++i) {
    skipped_bytes_[resources[i].index()] += more * (bytes_carried(resources[i]) - begin.bytes[i]);
  }
}

std::vector<LinkUse> TimelineRecorder::links_used(bool every_link) const {
  std::vector<LinkUse> out;
  std::vector<bool> is_listed(skipped_bytes_.size(), false);  // by resource
  if (every_link) out.reserve(cluster_.topology.links.size());
  for (std::size_t l = 0; l < cluster_.topology.links.size(); ++l) {
    const LinkId link(l);
    const ResourceId resource = view_.resource_of(link);
    if (!every_link && is_listed[resource.index()]) continue;
    is_listed[resource.index()] = true;
    const double on_link = bytes_carried(resource) * view_.bytes_on_link(link);
    if (on_link > 0) out.push_back({link, on_link});
  }
  return out;
}

Timeline TimelineRecorder::finish(SimTime now, std::int64_t world_size, bool every_link) {
  Timeline timeline;
  timeline.makespan = now + skipped_;
  timeline.joined_end = joined_end_;
  std::size_t spans = 0;
  for (const std::vector<TimelineSpan>& of_rank : spans_) spans += of_rank.size();
  timeline.spans.reserve(spans);
  for (std::vector<TimelineSpan>& of_rank : spans_) {
    timeline.spans.insert(timeline.spans.end(), of_rank.begin(), of_rank.end());
    of_rank = {};
  }
  if (const SymmetricView* symmetry = view_.symmetry()) {
    timeline.segment = world_size;
    timeline.classes = static_cast<std::int64_t>(view_.simulated_ranks().size());
    timeline.class_of = symmetry->class_of;
    for (const RankId r : symmetry->rank_of) timeline.recorded_of.push_back(r.value());
  }
  sort_spans(timeline.spans);
  timeline.repeats = std::move(repeats_);
  timeline.links = links_used(every_link);
  for (LinkRecorder& w : watched_) timeline.link_history.push_back(w.take_history());
  return timeline;
}

}  // namespace moeplan::sim
