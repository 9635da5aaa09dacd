#include "model/analysis/timeline.hpp"

#include <algorithm>
#include <tuple>

namespace moeplan {

std::int64_t Timeline::occurrences(const TimelineSpan& span) const {
  std::int64_t times = 1;
  for (std::int32_t r = span.repeat; r >= 0; r = repeats[static_cast<std::size_t>(r)].parent) {
    times *= repeats[static_cast<std::size_t>(r)].count;
  }
  return times;
}

void sort_spans(std::vector<TimelineSpan>& spans) {
  std::sort(spans.begin(), spans.end(), [](const TimelineSpan& a, const TimelineSpan& b) {
    return std::tie(a.start, a.rank, a.end, a.operation) < std::tie(b.start, b.rank, b.end, b.operation);
  });
}

}  // namespace moeplan
