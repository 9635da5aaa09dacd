#include "model/program/timeline.hpp"

namespace moeplan {

std::int64_t Timeline::occurrences(const TimelineSpan& span) const {
  std::int64_t times = 1;
  for (std::int32_t r = span.repeat; r >= 0; r = repeats[static_cast<std::size_t>(r)].parent) {
    times *= repeats[static_cast<std::size_t>(r)].count;
  }
  return times;
}

}  // namespace moeplan
