#include "model/analysis/timeline.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace moeplan {

std::int64_t Timeline::occurrences(const TimelineSpan& span) const {
  std::int64_t times = 1;
  for (std::int32_t r = span.repeat; r >= 0; r = repeats[static_cast<std::size_t>(r)].parent) {
    times *= repeats[static_cast<std::size_t>(r)].count;
  }
  return times;
}

std::vector<std::vector<SimTime>> repeat_offsets(const Timeline& timeline) {
  std::vector<std::vector<SimTime>> out(timeline.repeats.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::vector<SimTime> offsets{SimTime()};
    for (auto r = static_cast<std::int32_t>(i); r >= 0;) {
      const TimelineRepeat& repeat = timeline.repeats[static_cast<std::size_t>(r)];
      std::vector<SimTime> all;
      for (std::int64_t k = 0; k < repeat.count; ++k) {
        for (const SimTime inner : offsets) all.push_back(SimTime::scaled(repeat.period, k) + inner);
      }
      offsets = std::move(all);
      r = repeat.parent;
    }
    out[i] = std::move(offsets);
  }
  return out;
}

void sort_spans(std::vector<TimelineSpan>& spans) {
  std::sort(spans.begin(), spans.end(), [](const TimelineSpan& a, const TimelineSpan& b) {
    return std::tie(a.start, a.rank, a.end, a.operation) < std::tie(b.start, b.rank, b.end, b.operation);
  });
}

}  // namespace moeplan
